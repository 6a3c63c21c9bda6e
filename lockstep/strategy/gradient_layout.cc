#include "lockstep/strategy/gradient_layout.h"

#include <fmt/format.h>

namespace lockstep::strategy {
namespace {

constexpr int64_t kAlignedElements = Buffer::kAlignment / sizeof(float);

}  // namespace

Result<GradientLayout> GradientLayout::Create(const std::vector<Value>& values,
                                              size_t bucket_bytes) {
  const auto bucket_elements = static_cast<int64_t>(bucket_bytes / sizeof(float));
  GradientLayout layout;
  for (const Value& value : values) {
    if (value.dtype() != DType::kFloat32 || !value.shape().fully_known()) {
      return InvalidArgument(
          fmt::format("replicas can add up float32 tensors of known shape; {} is {} {}",
                      value.name(), DTypeName(value.dtype()), value.shape().ToString()));
    }
    Slot slot{value.shape(), layout.elements_, value.shape().num_elements()};
    const int64_t end = slot.begin + slot.count;
    if (layout.buckets_.empty() || end - layout.buckets_.back().begin > bucket_elements) {
      layout.buckets_.push_back({slot.begin, 0});
    }
    layout.buckets_.back().count = end - layout.buckets_.back().begin;
    layout.elements_ = (end + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
    layout.slots_.push_back(std::move(slot));
  }
  return layout;
}

}  // namespace lockstep::strategy
