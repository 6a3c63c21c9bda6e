#include "lockstep/op/internal/broadcast_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::op {
namespace {

std::vector<float> Sum(const std::vector<float>& x, const Shape& input, const Shape& output,
                       int threads) {
  const BroadcastSum sum(input, output, threads);
  std::vector<float> scratch(sum.scratch_bytes() / sizeof(float));
  std::vector<float> y(static_cast<size_t>(output.num_elements()), NAN);
  sum.Run(x.data(), y.data(), scratch.data());
  return y;
}

TEST(BroadcastSumTest, Columns) {
  EXPECT_EQ(Sum({1, 2, 3, 4, 5, 6}, Shape{3, 2}, Shape{2}, 1), (std::vector<float>{9, 12}));
}

TEST(BroadcastSumTest, Rows) {
  EXPECT_EQ(Sum({1, 2, 3, 4, 5, 6}, Shape{3, 2}, Shape{3, 1}, 1), (std::vector<float>{3, 7, 11}));
}

TEST(BroadcastSumTest, MiddleAxis) {
  EXPECT_EQ(Sum({1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 2, 2}, Shape{2, 1, 2}, 1),
            (std::vector<float>{4, 6, 12, 14}));
}

TEST(BroadcastSumTest, NothingToAddIsZero) {
  EXPECT_EQ(Sum({}, Shape{0, 2}, Shape{2}, 1), (std::vector<float>{0, 0}));
  EXPECT_EQ(Sum({}, Shape{0, 2}, Shape{}, 1), (std::vector<float>{0}));
  EXPECT_EQ(Sum({}, Shape{2, 0}, Shape{2, 1}, 1), (std::vector<float>{0, 0}));
}

// A running float sum of these is off by more than a hundred.
TEST(BroadcastSumTest, LongSumsStayExact) {
  const std::vector<float> x(1 << 22, 0.1F);
  const double expected = static_cast<double>(0.1F) * static_cast<double>(x.size());
  const Shape input{static_cast<int64_t>(x.size())};
  EXPECT_NEAR(Sum(x, input, Shape{}, 1)[0], expected, 1e-6 * expected);
}

TEST(BroadcastSumTest, ThreadsGiveTheSameBits) {
  std::vector<float> x(300 * 2100);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
  }
  const Shape input{300, 2100};
  for (const Shape& output : {Shape{2100}, Shape{300, 1}, Shape{}}) {
    EXPECT_EQ(Sum(x, input, output, 1), Sum(x, input, output, 2)) << output.ToString();
  }
}

}  // namespace
}  // namespace lockstep::op
