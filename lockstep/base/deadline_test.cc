#include "lockstep/base/deadline.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(DeadlineTest, LiesAheadByTheDelay) {
  const Deadline::Clock::time_point before = Deadline::Clock::now();
  const Deadline deadline = Deadline::After(hours(1));
  const Deadline::Clock::time_point after = Deadline::Clock::now();
  EXPECT_GE(deadline.when(), before + hours(1));
  EXPECT_LE(deadline.when(), after + hours(1));
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.remaining(), milliseconds(0));
  EXPECT_LE(deadline.remaining(), hours(1));
}

TEST(DeadlineTest, ZeroAndNegativeDelaysHavePassed) {
  EXPECT_TRUE(Deadline::After(milliseconds(0)).expired());
  EXPECT_TRUE(Deadline::After(milliseconds(-5)).expired());
  EXPECT_TRUE(Deadline::After(milliseconds::min()).expired());
  EXPECT_EQ(Deadline::After(milliseconds(-5)).remaining(), Deadline::Clock::duration::zero());
}

TEST(DeadlineTest, DelaysBeyondTheClockNeverPass) {
  EXPECT_TRUE(Deadline::After(milliseconds::max()).infinite());
  EXPECT_FALSE(Deadline::After(milliseconds::max()).expired());
  EXPECT_EQ(Deadline::Infinite().remaining(), Deadline::Clock::duration::max());
  EXPECT_FALSE(Deadline::After(hours(1)).infinite());
}

TEST(DeadlineTest, TheEarlierOneIsLess) {
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  EXPECT_LT(Deadline::At(now), Deadline::At(now + milliseconds(1)));
  EXPECT_EQ(std::min(Deadline::Infinite(), Deadline::At(now)), Deadline::At(now));
}

}  // namespace
}  // namespace lockstep
