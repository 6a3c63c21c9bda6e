#include "lockstep/collective/codec.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "lockstep/collective/internal/float16.h"
#include "lockstep/tensor/bfloat16.h"

namespace lockstep::collective {
namespace {

constexpr std::array<std::pair<Codec, std::string_view>, 5> kCodecNames = {{
    {Codec::kNone, "none"},
    {Codec::kBFloat16, "bf16"},
    {Codec::kFloat16, "fp16"},
    {Codec::kInt8, "int8"},
    {Codec::kTopK, "top_k"},
}};

}  // namespace

std::string_view CodecName(Codec codec) {
  for (const auto& [value, name] : kCodecNames) {
    if (value == codec) {
      return name;
    }
  }
  return "unknown";
}

Result<Codec> ParseCodec(std::string_view name) {
  std::string allowed;
  for (const auto& [value, known] : kCodecNames) {
    if (known == name) {
      return value;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known);
  }
  return InvalidArgument(fmt::format("there is no codec '{}': allowed are {}", name, allowed));
}

void RoundNode(Codec codec, float* values, int64_t count) {
  if (codec == Codec::kBFloat16) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      values[i] = BFloat16::FromFloat(values[i]).ToFloat();
    }
  } else if (codec == Codec::kFloat16) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      values[i] = internal::Float16ToFloat(internal::Float16FromFloat(values[i]));
    }
  }
}

}  // namespace lockstep::collective
