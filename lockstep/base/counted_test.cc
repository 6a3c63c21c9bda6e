#include "lockstep/base/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

TEST(CountedTest, OneIsNoPlural) {
  EXPECT_EQ(Counted(0, "byte"), "0 bytes");
  EXPECT_EQ(Counted(1, "byte"), "1 byte");
  EXPECT_EQ(Counted(uint64_t{1} << 63, "byte"), "9223372036854775808 bytes");
  EXPECT_EQ(Counted(-1, "step"), "-1 steps");
  EXPECT_EQ(Counted(1, "class", "classes"), "1 class");
  EXPECT_EQ(Counted(2, "class", "classes"), "2 classes");
}

}  // namespace
}  // namespace lockstep
