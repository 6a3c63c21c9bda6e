// Element types of tensors. The numeric values are part of the file formats: never renumber.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

enum class DType : uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat64 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt8 = 6,
  kBool = 7,
};

// Bytes of one element.
size_t DTypeSize(DType dtype);

// "float32", "bfloat16", "float64", "int32", "int64", "uint8", "bool".
std::string_view DTypeName(DType dtype);
Result<DType> ParseDType(std::string_view name);
// For values read from a file or a peer.
Result<DType> DTypeFromInt(int64_t value);

inline bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat64;
}

inline bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUInt8;
}

// DTypeOf<float>() == DType::kFloat32 and so on.
struct BFloat16;
template <class T>
constexpr DType DTypeOf();

template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}

template <>
constexpr DType DTypeOf<BFloat16>() {
  return DType::kBFloat16;
}

template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}

template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}

template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}

template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUInt8;
}

template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

}  // namespace lockstep
