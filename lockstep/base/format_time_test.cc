#include "lockstep/base/format_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(FormatTimeTest, TwoUnitsAtMost) {
  EXPECT_EQ(FormatDuration(0), "0.0s");
  EXPECT_EQ(FormatDuration(0.44), "0.4s");
  EXPECT_EQ(FormatDuration(9.94), "9.9s");
  EXPECT_EQ(FormatDuration(9.96), "10s");
  EXPECT_EQ(FormatDuration(59.4), "59s");
  EXPECT_EQ(FormatDuration(59.6), "1m00s");
  EXPECT_EQ(FormatDuration(185), "3m05s");
  EXPECT_EQ(FormatDuration(3599.7), "1h00m");
  EXPECT_EQ(FormatDuration(3723), "1h02m");
  EXPECT_EQ(FormatDuration(2 * 86400 + 3 * 3600 + 59), "2d03h");
}

TEST(FormatTimeTest, WhatIsNoDuration) {
  EXPECT_EQ(FormatDuration(-1), "?");
  EXPECT_EQ(FormatDuration(std::nan("")), "?");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::infinity()), "?");
}

}  // namespace
}  // namespace lockstep
