// IEEE 754 binary16, by its bits: conversion from float32 rounds to nearest even, to infinity from
// 65520 on; NaN stays a quiet NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::collective::internal {

inline uint16_t Float16FromFloat(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 16) & 0x8000U;
  const uint32_t magnitude = word & 0x7FFFFFFFU;
  // Subnormal: adding a half leaves multiples of 2^-24 in the last bits, rounded by the addition.
  constexpr uint32_t kHalf = 126U << 23;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalf)) -
      kHalf;
  // Normal: the exponent has 112 less, the mantissa 13 bits less.
  const uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  uint32_t result = magnitude < (113U << 23) ? small : normal;
  result = magnitude >= 0x477FF000U ? 0x7C00U : result;
  result = magnitude > 0x7F800000U ? 0x7E00U : result;
  return static_cast<uint16_t>(sign | result);
}

inline float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7FFFU) << 13;
  const uint32_t exponent = shifted & (0x7C00U << 13);
  const uint32_t normal = shifted + (112U << 23);
  const uint32_t special = normal + (112U << 23);
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(normal + (1U << 23)) -
                                                 std::bit_cast<float>(113U << 23));
  const uint32_t magnitude =
      exponent == 0 ? small : (exponent == (0x7C00U << 13) ? special : normal);
  return std::bit_cast<float>(sign | magnitude);
}

}  // namespace lockstep::collective::internal
