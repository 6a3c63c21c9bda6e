#include "lockstep/data/dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "lockstep/base/sha256.h"
#include "lockstep/data/internal/scale.h"

namespace lockstep::data {

Result<Split> Split::Create(std::string_view name, Tensor features, Tensor labels,
                            int64_t num_classes) {
  if (features.dtype() != DType::kUInt8 && features.dtype() != DType::kFloat32) {
    return InvalidArgument(fmt::format("{}: features of type {}, allowed are uint8 and float32",
                                       name, DTypeName(features.dtype())));
  }
  if (labels.dtype() != DType::kInt32 || labels.shape().rank() != 1) {
    return InvalidArgument(fmt::format("{}: labels are {} {}, expected int32 [N]", name,
                                       DTypeName(labels.dtype()), labels.shape().ToString()));
  }
  if (features.shape().rank() < 2 || features.shape()[0] != labels.shape()[0]) {
    return InvalidArgument(
        fmt::format("{}: features {} do not fit labels {}, expected [N, ...] and "
                    "[N]",
                    name, features.shape().ToString(), labels.shape().ToString()));
  }
  Split split;
  split.size_ = labels.shape()[0];
  if (split.size_ > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(fmt::format("{}: {} samples, at most {} are allowed", name, split.size_,
                                       std::numeric_limits<int32_t>::max()));
  }
  split.sample_elements_ = 1;
  for (int axis = 1; axis < features.shape().rank(); ++axis) {
    split.sample_elements_ *= features.shape()[axis];
  }
  const std::span<const int32_t> values = labels.values<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= num_classes) {
      return InvalidArgument(fmt::format("{}: sample {} has label {}, allowed are 0 to {}", name, i,
                                         values[i], num_classes - 1));
    }
  }
  split.features_ = std::move(features);
  split.labels_ = std::move(labels);
  return split;
}

void Split::Gather(std::span<const uint32_t> indices, float* features, int32_t* labels) const {
  if (indices.empty()) {
    return;
  }
  const auto elements = static_cast<size_t>(sample_elements_);
  const bool bytes = features_.dtype() == DType::kUInt8;
  const auto* classes = static_cast<const int32_t*>(labels_.data());
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t index = indices[i];
    LS_CHECK(index < static_cast<size_t>(size_));
    labels[i] = classes[index];
    float* target = features + i * elements;
    if (bytes) {
      internal::ScaleBytes(static_cast<const uint8_t*>(features_.data()) + index * elements,
                           elements, target);
    } else if (elements > 0) {
      std::memcpy(target, static_cast<const float*>(features_.data()) + index * elements,
                  elements * sizeof(float));
    }
  }
}

Result<std::string> ContentSha256(const Split& split) {
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  for (const Tensor* tensor : {&split.features(), &split.labels()}) {
    if (!tensor->has_value()) {
      continue;  // A split without samples.
    }
    // The shape's closing bracket keeps what follows apart from it.
    hash.Update(fmt::format("{} {}", DTypeName(tensor->dtype()), tensor->shape().ToString()));
    hash.Update(tensor->data(), tensor->bytes());
  }
  return std::move(hash).HexDigest();
}

Status CheckStop(const StopCheck& should_stop) {
  return should_stop && should_stop() ? Cancelled("stopped while the data was loaded") : OkStatus();
}

}  // namespace lockstep::data
