#include "lockstep/strategy/gradient_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::strategy {
namespace {

constexpr int64_t kAlignedElements = Buffer::kAlignment / sizeof(float);

}  // namespace

Result<GradientLayout> GradientLayout::Create(const std::vector<Value>& values,
                                              size_t bucket_bytes) {
  GradientLayout layout;
  for (const Value& value : values) {
    if (value.dtype() != DType::kFloat32 || !value.shape().fully_known()) {
      return InvalidArgument(
          fmt::format("replicas can add up float32 tensors of known shape; {} is {} {}",
                      value.name(), DTypeName(value.dtype()), value.shape().ToString()));
    }
    Slot slot{value.shape(), layout.elements_, value.shape().num_elements()};
    layout.elements_ += (slot.count + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
    layout.slots_.push_back(std::move(slot));
  }
  layout.MakeBuckets(bucket_bytes);
  return layout;
}

void GradientLayout::MakeBuckets(size_t bucket_bytes) {
  size_t most = std::min(bucket_bytes, kLastBucketBytes) / sizeof(float);
  for (size_t i = slots_.size(); i-- > 0;) {
    const Slot& slot = slots_[i];
    const int64_t end =
        buckets_.empty() ? slot.begin + slot.count : buckets_.back().begin + buckets_.back().count;
    const bool fits = !buckets_.empty() && end - slot.begin <= static_cast<int64_t>(most);
    if (!fits) {
      most = buckets_.empty() ? most : bucket_bytes / sizeof(float);
      buckets_.push_back({i + 1, 0, slot.begin + slot.count, 0});
    }
    Bucket& bucket = buckets_.back();
    bucket.count += bucket.begin - slot.begin;
    bucket.begin = slot.begin;
    bucket.first_slot = i;
    ++bucket.slots;
  }
  std::reverse(buckets_.begin(), buckets_.end());
}

}  // namespace lockstep::strategy
