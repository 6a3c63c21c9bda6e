// A labelled data set in memory: the splits `train` and `test`, one feature tensor and one class
// number per sample. Features stay as they were stored (bytes stay bytes) and become float32 batch
// by batch. Immutable once made, so that threads may share it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::data {

class Split {
 public:
  // No samples.
  Split() = default;

  // features: uint8 or float32 [N, ...]; labels: int32 [N], each in [0, num_classes). Errors name
  // the offending tensor or sample, and `name`.
  static Result<Split> Create(std::string_view name, Tensor features, Tensor labels,
                              int64_t num_classes);

  // The number of samples, N.
  int64_t size() const { return size_; }

  // Elements of one sample's features.
  int64_t sample_elements() const { return sample_elements_; }

  const Tensor& features() const { return features_; }

  const Tensor& labels() const { return labels_; }

  // Copies the samples with these indices, each in [0, size()): features as float32 (bytes divided
  // by 255) to `features`, which has indices.size() * sample_elements() elements, class numbers to
  // `labels`, which has indices.size().
  void Gather(std::span<const uint32_t> indices, float* features, int32_t* labels) const;

 private:
  int64_t size_ = 0;
  int64_t sample_elements_ = 0;
  Tensor features_;
  Tensor labels_;
};

// SHA-256, in hexadecimal, over element type, shape and bytes of the features as they are stored,
// and over the labels: what identifies the samples and their order, wherever they were read from.
Result<std::string> ContentSha256(const Split& split);

// Asked now and then while data is loaded or made, which may take minutes: true ends it with
// CANCELLED. Empty: never.
using StopCheck = std::function<bool()>;

Status CheckStop(const StopCheck& should_stop);

struct Dataset {
  // Where it came from, for messages.
  std::string name;
  // What a user may want to know: files that were not read because of others.
  std::vector<std::string> warnings;
  // Features of one sample, without the batch: [height, width, channels] for images.
  Shape sample_shape;
  int64_t num_classes = 0;
  Split train;
  Split test;
};

}  // namespace lockstep::data
