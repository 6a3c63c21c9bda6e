#include "lockstep/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/base/philox.h"

namespace lockstep::data {
namespace {

constexpr int64_t kGridCells = 4;
// A few milliseconds of work.
constexpr size_t kElementsBetweenChecks = size_t{1} << 18;

Status Check(const SyntheticOptions& options) {
  const Shape& shape = options.sample_shape;
  if (shape.rank() < 1 || shape.rank() >= Shape::kMaxRank ||
      std::any_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim < 1; })) {
    return InvalidArgument(
        fmt::format("synthetic data: sample shape {}, allowed are 1 to {} dimensions of at least 1",
                    shape.ToString(), Shape::kMaxRank - 1));
  }
  constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
  if (options.num_classes < 2 || options.num_classes > kMaxCount) {
    return InvalidArgument(fmt::format("synthetic data: num_classes is {}, allowed are 2 to {}",
                                       options.num_classes, kMaxCount));
  }
  if (options.train_samples < 1 || options.train_samples > kMaxCount || options.test_samples < 0 ||
      options.test_samples > kMaxCount) {
    return InvalidArgument(fmt::format(
        "synthetic data: {} training and {} test samples, allowed are 1 to {} and 0 to {}",
        options.train_samples, options.test_samples, kMaxCount, kMaxCount));
  }
  if (!std::isfinite(options.noise) || options.noise < 0) {
    return InvalidArgument(
        fmt::format("synthetic data: noise {}, allowed are finite numbers of at "
                    "least 0",
                    options.noise));
  }
  return OkStatus();
}

// In [-width, width).
float Symmetric(uint32_t word, float width) {
  return (2.0F * UniformFloat(word) - 1.0F) * width;
}

// What the samples of one class have in common: one value per feature.
class ClassPattern {
 public:
  ClassPattern(const SyntheticOptions& options, int64_t label)
      : shape_(options.sample_shape),
        channels_(shape_[shape_.rank() - 1]),
        offsets_(options.seed, "synthetic/offset", label),
        details_(options.seed, "synthetic/detail", label) {}

  float At(int64_t feature) const {
    const int64_t channel = feature % channels_;
    int64_t detail = feature;
    if (shape_.rank() == 3) {
      const int64_t row = feature / channels_ / shape_[1];
      const int64_t column = feature / channels_ % shape_[1];
      const int64_t cell =
          row * kGridCells / shape_[0] * kGridCells + column * kGridCells / shape_[1];
      detail = cell * channels_ + channel;
    }
    return Symmetric(offsets_.Word(static_cast<uint64_t>(channel)), 1.0F) +
           Symmetric(details_.Word(static_cast<uint64_t>(detail)), 0.5F);
  }

 private:
  Shape shape_;
  int64_t channels_;
  PhiloxStream offsets_;
  PhiloxStream details_;
};

// Adds noise to `features`, the features of sample `index` of the split called `name`.
Status AddNoise(const SyntheticOptions& options, std::string_view name, int64_t index,
                std::span<float> features) {
  const PhiloxStream stream(options.seed, name, index);
  for (size_t i = 0; i < features.size(); i += 4) {
    if (i % kElementsBetweenChecks == 0) {
      LS_TRY(CheckStop(options.should_stop));
    }
    const PhiloxBlock block = stream.Block(i / 4);
    const std::array<float, 2> first = NormalPair(block[0], block[1]);
    const std::array<float, 2> second = NormalPair(block[2], block[3]);
    const std::array<float, 4> normal = {first[0], first[1], second[0], second[1]};
    for (size_t j = 0; j < 4 && i + j < features.size(); ++j) {
      features[i + j] += options.noise * normal[j];
    }
  }
  return OkStatus();
}

Result<Split> MakeSplit(const SyntheticOptions& options, std::string_view name, int64_t samples) {
  std::vector<int64_t> dims = {samples};
  dims.insert(dims.end(), options.sample_shape.dims().begin(), options.sample_shape.dims().end());
  LS_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
  LS_ASSIGN_OR_RETURN(Tensor features, Tensor::Allocate(DType::kFloat32, shape));
  LS_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DType::kInt32, Shape{samples}));
  const auto elements = static_cast<size_t>(options.sample_shape.num_elements());
  const std::span<float> values = features.values<float>();
  const std::span<int32_t> classes = labels.values<int32_t>();
  const auto sample = [&](int64_t index) {
    return values.subspan(static_cast<size_t>(index) * elements, elements);
  };
  // Class by class, so that a pattern is computed once.
  for (int64_t label = 0; label < std::min(options.num_classes, samples); ++label) {
    LS_TRY(CheckStop(options.should_stop));
    const ClassPattern pattern(options, label);
    const std::span<float> first = sample(label);
    for (size_t i = 0; i < elements; ++i) {
      if (i % kElementsBetweenChecks == 0) {
        LS_TRY(CheckStop(options.should_stop));
      }
      first[i] = pattern.At(static_cast<int64_t>(i));
    }
    for (int64_t index = label; index < samples; index += options.num_classes) {
      classes[static_cast<size_t>(index)] = static_cast<int32_t>(label);
      if (index != label) {
        LS_TRY(CheckStop(options.should_stop));
        std::copy(first.begin(), first.end(), sample(index).begin());
      }
    }
  }
  for (int64_t index = 0; index < samples; ++index) {
    LS_TRY(AddNoise(options, name, index, sample(index)));
  }
  return Split::Create(name, std::move(features), std::move(labels), options.num_classes);
}

}  // namespace

Result<Dataset> MakeSynthetic(const SyntheticOptions& options) {
  LS_TRY(Check(options));
  Dataset dataset;
  dataset.name = "synthetic";
  dataset.sample_shape = options.sample_shape;
  dataset.num_classes = options.num_classes;
  LS_ASSIGN_OR_RETURN(dataset.train, MakeSplit(options, "synthetic/train", options.train_samples));
  LS_ASSIGN_OR_RETURN(dataset.test, MakeSplit(options, "synthetic/test", options.test_samples));
  return dataset;
}

}  // namespace lockstep::data
