#include "lockstep/data/idx_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/data/idx.h"

namespace lockstep::data {
namespace {

// What one split was read from.
struct Files {
  std::string images_path;
  std::string labels_path;
  Tensor images;
  Tensor labels;
};

// The first existing of the names that a file may have.
Result<std::string> FindFile(const std::string& folder, std::string_view stem, int dimensions) {
  std::vector<std::string> names;
  for (const std::string_view separator : {"-", "."}) {
    for (const std::string_view ending : {"", ".gz"}) {
      names.push_back(fmt::format("{}{}idx{}-ubyte{}", stem, separator, dimensions, ending));
    }
  }
  const std::filesystem::path base(folder);
  for (const std::string& name : names) {
    std::error_code error;
    if (std::filesystem::exists(base / name, error)) {
      return (base / name).string();
    }
  }
  return NotFound(fmt::format("{}: none of the files {} is there", folder, fmt::join(names, ", ")));
}

Status CheckKind(const std::string& path, const Tensor& tensor, int rank, std::string_view what) {
  if (tensor.dtype() != DType::kUInt8 || tensor.shape().rank() != rank) {
    return DataLoss(fmt::format("{}: {} {}, {} are unsigned bytes with {} dimension{}", path,
                                DTypeName(tensor.dtype()), tensor.shape().ToString(), what, rank,
                                rank == 1 ? "" : "s"));
  }
  return OkStatus();
}

Result<Files> ReadSplit(const std::string& folder, std::string_view prefix) {
  Files files;
  LS_ASSIGN_OR_RETURN(files.images_path, FindFile(folder, fmt::format("{}-images", prefix), 3));
  LS_ASSIGN_OR_RETURN(files.labels_path, FindFile(folder, fmt::format("{}-labels", prefix), 1));
  LS_ASSIGN_OR_RETURN(files.labels, ReadIdx(files.labels_path));
  LS_TRY(CheckKind(files.labels_path, files.labels, 1, "labels"));
  LS_ASSIGN_OR_RETURN(files.images, ReadIdx(files.images_path));
  LS_TRY(CheckKind(files.images_path, files.images, 3, "images"));
  if (files.images.num_elements() == 0) {
    return DataLoss(
        fmt::format("{}: {} holds no pixel", files.images_path, files.images.shape().ToString()));
  }
  if (files.images.shape()[0] != files.labels.shape()[0]) {
    return DataLoss(fmt::format("{} has {} images but {} has {} labels", files.images_path,
                                files.images.shape()[0], files.labels_path,
                                files.labels.shape()[0]));
  }
  return files;
}

int64_t HighestLabel(const Files& files) {
  const std::span<const uint8_t> labels = files.labels.values<uint8_t>();
  return *std::max_element(labels.begin(), labels.end());
}

Result<Split> MakeSplit(const Files& files, int64_t num_classes) {
  const Shape& shape = files.images.shape();
  LS_ASSIGN_OR_RETURN(Tensor features,
                      files.images.Reshaped(Shape{shape[0], shape[1], shape[2], 1}));
  LS_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DType::kInt32, files.labels.shape()));
  ConvertElements(DType::kUInt8, files.labels.data(), DType::kInt32, labels.data(),
                  labels.num_elements());
  Result<Split> split =
      Split::Create(files.labels_path, std::move(features), std::move(labels), num_classes);
  if (!split.ok()) {
    return DataLoss(split.status().message());
  }
  return split;
}

Result<Dataset> MakeDataset(const std::string& folder, int64_t num_classes, const Files& train,
                            const Files& test) {
  const Shape& shape = train.images.shape();
  const Shape& test_shape = test.images.shape();
  if (shape[1] != test_shape[1] || shape[2] != test_shape[2]) {
    return DataLoss(fmt::format("{} has images of {} x {} pixels but {} of {} x {}",
                                train.images_path, shape[1], shape[2], test.images_path,
                                test_shape[1], test_shape[2]));
  }
  Dataset dataset;
  dataset.name = folder;
  dataset.sample_shape = Shape{shape[1], shape[2], 1};
  dataset.num_classes =
      num_classes > 0 ? num_classes : std::max(HighestLabel(train), HighestLabel(test)) + 1;
  LS_ASSIGN_OR_RETURN(dataset.train, MakeSplit(train, dataset.num_classes));
  LS_ASSIGN_OR_RETURN(dataset.test, MakeSplit(test, dataset.num_classes));
  return dataset;
}

Status CheckFolder(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return NotFound(fmt::format("{}: not a folder, expected one with IDX files", folder));
  }
  return OkStatus();
}

}  // namespace

Result<Dataset> LoadIdxFolder(const std::string& folder, int64_t num_classes) {
  LS_TRY(CheckFolder(folder));
  LS_ASSIGN_OR_RETURN(const Files train, ReadSplit(folder, "train"));
  LS_ASSIGN_OR_RETURN(const Files test, ReadSplit(folder, "t10k"));
  return MakeDataset(folder, num_classes, train, test);
}

Result<Dataset> LoadMnist(const std::string& folder) {
  constexpr int64_t kClasses = 10;
  constexpr int64_t kPixels = 28;
  LS_ASSIGN_OR_RETURN(Dataset dataset, LoadIdxFolder(folder, kClasses));
  if (dataset.sample_shape[0] != kPixels || dataset.sample_shape[1] != kPixels) {
    return DataLoss(fmt::format("{}: images of {} x {} pixels, MNIST has {} x {}", folder,
                                dataset.sample_shape[0], dataset.sample_shape[1], kPixels,
                                kPixels));
  }
  return dataset;
}

}  // namespace lockstep::data
