#include "lockstep/collective/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/collective/internal/float16.h"

namespace lockstep::collective {
namespace {

using internal::Float16FromFloat;
using internal::Float16ToFloat;

constexpr Codec kCodecs[] = {Codec::kNone, Codec::kBFloat16, Codec::kFloat16, Codec::kInt8,
                             Codec::kTopK};

float Rounded(Codec codec, float value) {
  RoundNode(codec, &value, 1);
  return value;
}

// By the definition of binary16.
double Float16Value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(CodecTest, NamesAreReadBack) {
  for (const Codec codec : kCodecs) {
    EXPECT_EQ(ParseCodec(CodecName(codec)).value(), codec);
  }
  EXPECT_NE(ParseCodec("int4").status().message().find("none, bf16, fp16, int8, top_k"),
            std::string::npos);
}

TEST(CodecTest, EveryFloat16IsReadAndWritten) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = Float16ToFloat(half);
    if ((half & 0x7C00) == 0x7C00) {
      EXPECT_EQ(std::isnan(value), (half & 0x3FF) != 0) << bits;
      EXPECT_EQ(std::isinf(value), (half & 0x3FF) == 0) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), Float16Value(half)) << bits;
    }
    EXPECT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (!std::isnan(value)) {
      ASSERT_EQ(Float16FromFloat(value), half) << bits;
    }
  }
}

TEST(CodecTest, Float16RoundsToTheNearestAndToEven) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto below = static_cast<float>(Float16Value(bits));
    const auto above = static_cast<float>(Float16Value(static_cast<uint16_t>(bits + 1)));
    const float middle = below + (above - below) / 2;
    EXPECT_EQ(Float16FromFloat(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(Float16FromFloat(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(Float16FromFloat(std::nextafter(middle, above)), bits + 1);
    EXPECT_EQ(Float16FromFloat(-below), bits | 0x8000);
  }
  EXPECT_EQ(Float16FromFloat(65519.996F), 0x7BFF);
  EXPECT_EQ(Float16FromFloat(65520.0F), 0x7C00);
  EXPECT_TRUE(
      std::isnan(Float16ToFloat(Float16FromFloat(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(CodecTest, RoundingStaysWithinTheStatedBounds) {
  for (int i = -2000; i <= 2000; ++i) {
    const float value = static_cast<float>(std::sin(i * 0.7) * std::pow(1.05, i / 10));
    const float magnitude = std::fabs(value);
    EXPECT_LE(std::fabs(Rounded(Codec::kBFloat16, value) - value), magnitude * 0x1p-8F);
    EXPECT_LE(std::fabs(Rounded(Codec::kFloat16, value) - value),
              std::max(magnitude * 0x1p-11F, 0x1p-25F));
    EXPECT_EQ(Rounded(Codec::kInt8, value), value);
    EXPECT_EQ(Rounded(Codec::kTopK, value), value);
    EXPECT_EQ(Rounded(Codec::kNone, value), value);
  }
}

}  // namespace
}  // namespace lockstep::collective
