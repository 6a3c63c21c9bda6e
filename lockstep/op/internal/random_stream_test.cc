#include "lockstep/op/internal/random_stream.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::op {
namespace {

TEST(NormalQuantileTest, InvertsTheDistributionFunction) {
  for (const double p : {1e-9, 1e-4, 0.02275, 0.074, 0.076, 0.3, 0.5, 0.6, 0.926, 0.999}) {
    const double x = NormalQuantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)), p, 1e-14 + 1e-13 * p);
  }
  EXPECT_EQ(NormalQuantile(0.5), 0.0);
}

TEST(TruncatedNormalTest, StaysWithinTwoDeviationsAndHasTheRightMoments) {
  EXPECT_GE(TruncatedNormalValue(0), -2.0F);
  EXPECT_LE(TruncatedNormalValue(0xFFFFFFFFU), 2.0F);
  constexpr int kCount = 100000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kCount; ++i) {
    // Evenly spread words integrate the quantile function.
    const double x = TruncatedNormalValue(static_cast<uint32_t>((i + 0.5) / kCount * 4294967296.0));
    ASSERT_LE(std::abs(x), 2.0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 1e-4);
  // 1 - 4 phi(2) / (2 Phi(2) - 1).
  EXPECT_NEAR(squares / kCount, 0.77374131, 1e-4);
}

TEST(StreamKeyTest, StepAndReplicaMatterOnlyPerStep) {
  const StepInfo a = {.seed = 5, .step = 1, .replica = 0};
  const StepInfo b = {.seed = 5, .step = 2, .replica = 1};
  const StreamKey per_step = {.seed = 0, .name = "w", .per_step = true};
  const StreamKey fixed = {.seed = 0, .name = "w", .per_step = false};
  EXPECT_NE(per_step.At(a).Block(0), per_step.At(b).Block(0));
  EXPECT_EQ(fixed.At(a).Block(0), fixed.At(b).Block(0));
  EXPECT_EQ(fixed.At(a).Block(3), PhiloxStream(5, "w").Block(3));
}

TEST(StreamKeyTest, SeedsOfOpAndRunBothMatter) {
  const StreamKey key = {.seed = 1, .name = "w", .per_step = false};
  const StreamKey other = {.seed = 2, .name = "w", .per_step = false};
  EXPECT_NE(key.At({.seed = 5}).Block(0), other.At({.seed = 5}).Block(0));
  EXPECT_NE(key.At({.seed = 5}).Block(0), key.At({.seed = 6}).Block(0));
}

}  // namespace
}  // namespace lockstep::op
