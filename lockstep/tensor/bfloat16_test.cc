#include "lockstep/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(BFloat16Test, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16::FromFloat(1.0F).bits, 0x3F80);
  // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7: ties go to the even mantissa.
  EXPECT_EQ(BFloat16::FromFloat(1.0F + 0x1.0p-8F).bits, 0x3F80);
  EXPECT_EQ(BFloat16::FromFloat(1.0F + 3 * 0x1.0p-8F).bits, 0x3F82);
  EXPECT_EQ(BFloat16::FromFloat(1.0F + 0x1.02p-8F).bits, 0x3F81);
}

TEST(BFloat16Test, KeepsSpecialValues) {
  EXPECT_TRUE(std::isnan(BFloat16::FromFloat(std::numeric_limits<float>::quiet_NaN()).ToFloat()));
  EXPECT_TRUE(std::isinf(BFloat16::FromFloat(std::numeric_limits<float>::infinity()).ToFloat()));
  EXPECT_TRUE(std::isinf(BFloat16::FromFloat(std::numeric_limits<float>::max()).ToFloat()));
  EXPECT_TRUE(std::signbit(BFloat16::FromFloat(-0.0F).ToFloat()));
}

TEST(BFloat16Test, RoundTripsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<uint16_t>(bits)};
    if (!std::isnan(value.ToFloat())) {
      EXPECT_EQ(BFloat16::FromFloat(value.ToFloat()), value);
    }
  }
}

}  // namespace
}  // namespace lockstep
