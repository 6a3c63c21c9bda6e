#include "lockstep/collective/leaf_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace lockstep::collective {
namespace {

constexpr size_t kBlock = 1024;
constexpr uint32_t kInfinityBits = 0x7F800000U;
constexpr int kLargestInt8 = 127;
// Of the step of int8: its inverse stays a normal number.
constexpr int kSmallestExponent = -100;
// 128 of this step would be infinity.
constexpr int kLargestExponent = 121;

// Orders as |value| does, NaN last.
uint32_t MagnitudeBits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU;
}

bool IsFinite(float value) {
  return MagnitudeBits(value) < kInfinityBits;
}

// The exponent of the smallest power of two of which 127 reach up to `largest`.
int StepExponent(float largest) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  exponent = std::max(exponent - 7, kSmallestExponent);
  const bool too_small = std::nearbyint(std::ldexp(largest, -exponent)) > kLargestInt8;
  return too_small && exponent < kLargestExponent ? exponent + 1 : exponent;
}

// Values become multiples of a power of two for each block: sums of them stay on a grid, which
// needs few bits.
void QuantiseBlock(std::span<float> values, std::span<float> residual) {
  uint32_t largest_bits = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += residual[i];
    const uint32_t bits = MagnitudeBits(values[i]);
    largest_bits = std::max(largest_bits, bits < kInfinityBits ? bits : 0);
  }
  const int exponent = StepExponent(std::bit_cast<float>(largest_bits));
  const float step = std::ldexp(1.0F, exponent);
  const float inverse = std::ldexp(1.0F, -exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool finite = IsFinite(values[i]);
    // Adding zero makes +0 of -0.
    const float multiple =
        std::clamp<float>(std::nearbyint(values[i] * inverse), -kLargestInt8, kLargestInt8);
    const float decoded = finite ? multiple * step + 0.0F : values[i];
    residual[i] = finite ? values[i] - decoded : 0.0F;
    values[i] = decoded;
  }
}

void KeepLargest(std::span<float> values, std::span<float> residual, double share) {
  std::vector<uint32_t> magnitudes(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += residual[i];
    magnitudes[i] = MagnitudeBits(values[i]);
  }
  const auto wanted = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const size_t kept = std::clamp<size_t>(wanted, 1, values.size());
  const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(kept) - 1;
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const uint32_t threshold = *last;
  // Of equal ones at the threshold the first ones are kept.
  auto equal = static_cast<size_t>(std::count(magnitudes.begin(), last + 1, threshold));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = MagnitudeBits(values[i]);
    bool keep = bits > threshold || bits >= kInfinityBits;
    if (!keep && bits == threshold && equal > 0) {
      equal -= 1;
      keep = true;
    }
    residual[i] = keep ? 0.0F : values[i];
    values[i] = keep ? values[i] + 0.0F : 0.0F;
  }
}

}  // namespace

Result<std::span<float>> LeafCodec::ResidualOf(size_t index, size_t elements) {
  if (index >= residuals_.size()) {
    residuals_.resize(index + 1);
  }
  std::vector<float>& residual = residuals_[index];
  if (residual.empty()) {
    residual.resize(elements);
  }
  if (residual.size() != elements) {
    return InvalidArgument(fmt::format("codec {}: value {} has {} elements: its residual has {}",
                                       CodecName(options_.codec), index, elements,
                                       residual.size()));
  }
  return std::span(residual);
}

Status LeafCodec::Apply(size_t index, std::span<float> values) {
  if (!HasResiduals(options_.codec)) {
    RoundNode(options_.codec, values.data(), static_cast<int64_t>(values.size()));
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const std::span<float> residual, ResidualOf(index, values.size()));
  if (options_.codec == Codec::kTopK) {
    if (!(options_.top_share > 0 && options_.top_share <= 1)) {
      return InvalidArgument(fmt::format(
          "codec top_k: a share of {}: allowed are more than 0, up to 1", options_.top_share));
    }
    if (!values.empty()) {
      KeepLargest(values, residual, options_.top_share);
    }
    return OkStatus();
  }
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    QuantiseBlock(values.subspan(begin, count), residual.subspan(begin, count));
  }
  return OkStatus();
}

Status LeafCodec::Restore(std::vector<std::vector<float>> residuals) {
  if (!HasResiduals(options_.codec) && !residuals.empty()) {
    return InvalidArgument(fmt::format("codec {} has no residuals", CodecName(options_.codec)));
  }
  residuals_ = std::move(residuals);
  return OkStatus();
}

}  // namespace lockstep::collective
