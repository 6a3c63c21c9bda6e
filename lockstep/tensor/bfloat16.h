// bfloat16: the upper half of a float32. Conversion from float32 rounds to nearest even; NaN stays
// a (quiet) NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

struct BFloat16 {
  uint16_t bits = 0;

  static BFloat16 FromFloat(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7FFFFFFFU) > 0x7F800000U) {
      return {static_cast<uint16_t>((word >> 16) | 0x0040U)};
    }
    return {static_cast<uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16)};
  }

  float ToFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

  friend bool operator==(BFloat16 a, BFloat16 b) = default;
};

static_assert(sizeof(BFloat16) == 2);

}  // namespace lockstep
