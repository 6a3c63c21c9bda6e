#include "lockstep/tensor/dtype.h"

#include <fmt/format.h>

#include <array>

namespace lockstep {
namespace {

struct DTypeInfo {
  DType dtype;
  size_t size;
  std::string_view name;
};

constexpr std::array<DTypeInfo, 7> kInfos = {{{DType::kFloat32, 4, "float32"},
                                              {DType::kBFloat16, 2, "bfloat16"},
                                              {DType::kFloat64, 8, "float64"},
                                              {DType::kInt32, 4, "int32"},
                                              {DType::kInt64, 8, "int64"},
                                              {DType::kUInt8, 1, "uint8"},
                                              {DType::kBool, 1, "bool"}}};

const DTypeInfo& InfoOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype) - 1;
  LS_CHECK(index < kInfos.size());
  return kInfos[index];
}

}  // namespace

size_t DTypeSize(DType dtype) {
  return InfoOf(dtype).size;
}

std::string_view DTypeName(DType dtype) {
  return InfoOf(dtype).name;
}

Result<DType> ParseDType(std::string_view name) {
  for (const DTypeInfo& info : kInfos) {
    if (info.name == name) {
      return info.dtype;
    }
  }
  return InvalidArgument(fmt::format(
      "unknown element type '{}': allowed are float32, bfloat16, float64, int32, int64, "
      "uint8, bool",
      name));
}

Result<DType> DTypeFromInt(int64_t value) {
  if (value < 1 || value > static_cast<int64_t>(kInfos.size())) {
    return InvalidArgument(
        fmt::format("unknown element type number {}: allowed are 1 to {}", value, kInfos.size()));
  }
  return static_cast<DType>(value);
}

}  // namespace lockstep
