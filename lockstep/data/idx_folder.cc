#include "lockstep/data/idx_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/counted.h"
#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/data/idx.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMnistClasses = 10;
constexpr int64_t kMnistPixels = 28;
constexpr IdxKind kImages = {3, "images"};
constexpr IdxKind kLabels = {1, "labels"};

// What one split was read from.
struct Files {
  std::string images_path;
  std::string labels_path;
  Tensor images;
  Tensor labels;
  std::vector<std::string> warnings;
};

// The names that a file may have, the first one first.
std::vector<std::string> NamesOf(std::string_view stem, int dimensions) {
  std::vector<std::string> names;
  for (const std::string_view separator : {"-", "."}) {
    for (const std::string_view ending : {"", ".gz"}) {
      names.push_back(fmt::format("{}{}idx{}-ubyte{}", stem, separator, dimensions, ending));
    }
  }
  return names;
}

// The first of them that is there. What others are there as well goes to `warnings`.
Result<std::string> FindFile(const std::string& folder, std::string_view stem, int dimensions,
                             std::vector<std::string>& warnings) {
  const std::vector<std::string> names = NamesOf(stem, dimensions);
  const std::filesystem::path base(folder);
  std::string first;
  for (const std::string& name : names) {
    // A link counts, wherever it leads: opening it then says what is wrong with it.
    std::error_code error;
    const std::string path = (base / name).string();
    const auto found = std::filesystem::symlink_status(path, error);
    if (std::filesystem::exists(found) && first.empty()) {
      first = path;
    } else if (std::filesystem::exists(found)) {
      warnings.push_back(
          fmt::format("{} is not read, because {} is there", Shown(path), Shown(first)));
    } else if (found.type() != std::filesystem::file_type::not_found) {
      return ErrnoStatus(error.value(), path, "look for the file");
    }
  }
  if (first.empty()) {
    return NotFound(
        fmt::format("{}: none of the files {} is there", Shown(folder), fmt::join(names, ", ")));
  }
  return first;
}

Status CheckPixels(const std::string& path, const Shape& shape) {
  if (shape.num_elements() == 0) {
    return DataLoss(fmt::format("{}: {} holds no pixel", Shown(path), shape.ToString()));
  }
  return OkStatus();
}

Result<Files> ReadSplit(const std::string& folder, std::string_view prefix,
                        const StopCheck& should_stop) {
  Files files;
  LS_ASSIGN_OR_RETURN(files.images_path,
                      FindFile(folder, fmt::format("{}-images", prefix), 3, files.warnings));
  LS_ASSIGN_OR_RETURN(files.labels_path,
                      FindFile(folder, fmt::format("{}-labels", prefix), 1, files.warnings));
  LS_ASSIGN_OR_RETURN(files.labels, ReadIdx(files.labels_path, should_stop, kLabels));
  LS_ASSIGN_OR_RETURN(files.images, ReadIdx(files.images_path, should_stop, kImages));
  LS_TRY(CheckPixels(files.images_path, files.images.shape()));
  if (files.images.shape()[0] != files.labels.shape()[0]) {
    return DataLoss(fmt::format("{} has {} but {} has {}", Shown(files.images_path),
                                Counted(files.images.shape()[0], "image"), Shown(files.labels_path),
                                Counted(files.labels.shape()[0], "label")));
  }
  return files;
}

// -1 if there is none.
int64_t HighestLabel(const Tensor& labels) {
  const std::span<const uint8_t> values = labels.values<uint8_t>();
  return values.empty() ? -1 : *std::max_element(values.begin(), values.end());
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
  dataset.warnings = train.warnings;
  dataset.warnings.insert(dataset.warnings.end(), test.warnings.begin(), test.warnings.end());
  dataset.sample_shape = Shape{shape[1], shape[2], 1};
  dataset.num_classes = num_classes > 0
                            ? num_classes
                            : std::max(HighestLabel(train.labels), HighestLabel(test.labels)) + 1;
  LS_ASSIGN_OR_RETURN(dataset.train, MakeSplit(train, dataset.num_classes));
  LS_ASSIGN_OR_RETURN(dataset.test, MakeSplit(test, dataset.num_classes));
  return dataset;
}

Status CheckFolder(const std::string& folder) {
  std::error_code error;
  const auto found = std::filesystem::status(folder, error);
  if (std::filesystem::is_directory(found)) {
    return OkStatus();
  }
  if (!std::filesystem::exists(found)) {
    return ErrnoStatus(error.value(), folder, "open the folder with IDX files");
  }
  return NotFound(fmt::format("{}: not a folder, expected one with IDX files", Shown(folder)));
}

}  // namespace

std::vector<std::string> IdxFolderFiles(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string_view prefix : {"train", "t10k"}) {
    for (const auto& [what, dimensions] : {std::pair("images", 3), std::pair("labels", 1)}) {
      for (const std::string& name : NamesOf(fmt::format("{}-{}", prefix, what), dimensions)) {
        paths.push_back((std::filesystem::path(folder) / name).string());
      }
    }
  }
  return paths;
}

Result<Dataset> LoadIdxFolder(const std::string& folder, int64_t num_classes,
                              const StopCheck& should_stop) {
  LS_TRY(CheckFolder(folder));
  LS_ASSIGN_OR_RETURN(const Files train, ReadSplit(folder, "train", should_stop));
  LS_ASSIGN_OR_RETURN(const Files test, ReadSplit(folder, "t10k", should_stop));
  return MakeDataset(folder, num_classes, train, test);
}

Result<Dataset> DescribeIdxFolder(const std::string& folder) {
  LS_TRY(CheckFolder(folder));
  Dataset dataset;
  dataset.name = folder;
  for (const std::string_view prefix : {"train", "t10k"}) {
    LS_ASSIGN_OR_RETURN(const std::string labels_path,
                        FindFile(folder, fmt::format("{}-labels", prefix), 1, dataset.warnings));
    LS_ASSIGN_OR_RETURN(const Tensor labels, ReadIdx(labels_path, {}, kLabels));
    dataset.num_classes = std::max(dataset.num_classes, HighestLabel(labels) + 1);
  }
  LS_ASSIGN_OR_RETURN(const std::string images_path,
                      FindFile(folder, "train-images", 3, dataset.warnings));
  LS_ASSIGN_OR_RETURN(const IdxHeader images, ReadIdxHeader(images_path, kImages));
  LS_TRY(CheckPixels(images_path, images.shape));
  dataset.sample_shape = Shape{images.shape[1], images.shape[2], 1};
  return dataset;
}

Dataset DescribeMnist(const std::string& folder) {
  Dataset dataset;
  dataset.name = folder;
  dataset.sample_shape = Shape{kMnistPixels, kMnistPixels, 1};
  dataset.num_classes = kMnistClasses;
  return dataset;
}

Result<Dataset> LoadMnist(const std::string& folder, const StopCheck& should_stop) {
  LS_ASSIGN_OR_RETURN(Dataset dataset, LoadIdxFolder(folder, kMnistClasses, should_stop));
  if (!(dataset.sample_shape == DescribeMnist(folder).sample_shape)) {
    return DataLoss(fmt::format("{}: images of {} x {} pixels, MNIST has {} x {}", Shown(folder),
                                dataset.sample_shape[0], dataset.sample_shape[1], kMnistPixels,
                                kMnistPixels));
  }
  return dataset;
}

}  // namespace lockstep::data
