// Kernels that are written once for float32 and bfloat16: arithmetic is in float, storage in T.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/tensor/bfloat16.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::op::internal {

inline float LoadFloat(float value) {
  return value;
}

inline float LoadFloat(BFloat16 value) {
  return value.ToFloat();
}

inline void StoreFloat(float& target, float value) {
  target = value;
}

// BFloat16::FromFloat without a branch, so that loops over it vectorise.
inline void StoreFloat(BFloat16& target, float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16;
  const uint32_t quiet = (word >> 16) | 0x0040U;
  target.bits = static_cast<uint16_t>((word & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

// Calls make(T()) with the element type; UNIMPLEMENTED for others.
template <class Make>
auto DispatchElement(DType dtype, std::string_view op, const Make& make) -> decltype(make(0.0F)) {
  switch (dtype) {
    case DType::kFloat32:
      return make(0.0F);
    case DType::kBFloat16:
      return make(BFloat16());
    default:
      return Unimplemented(fmt::format("{} has no kernel for {}", op, DTypeName(dtype)));
  }
}

}  // namespace lockstep::op::internal
