#include "lockstep/op/internal/broadcast.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::op {
namespace {

// The flat index of input `i` for every element of the output, as the plan walks it.
std::vector<int64_t> Walk(const BroadcastPlan& plan, size_t i, int64_t begin, int64_t end) {
  std::vector<int64_t> indices;
  ForEachRow(plan, begin, end, [&](int64_t, const BroadcastOffsets& offsets) {
    for (int64_t k = 0; k < plan.inner; ++k) {
      indices.push_back(offsets[i] + k * plan.inner_strides[i]);
    }
  });
  return indices;
}

TEST(BroadcastTest, EqualShapesAreOneRow) {
  const std::vector<Shape> inputs = {Shape{2, 3, 4}, Shape{2, 3, 4}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{2, 3, 4}, inputs);
  EXPECT_EQ(plan.rows, 1);
  EXPECT_EQ(plan.inner, 24);
}

TEST(BroadcastTest, MergesWhatBothInputsAllow) {
  const std::vector<Shape> inputs = {Shape{2, 3, 4, 5}, Shape{3, 1, 1}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{2, 3, 4, 5}, inputs);
  EXPECT_EQ(plan.inner, 20);
  EXPECT_EQ(plan.rows, 6);
  EXPECT_EQ(plan.inner_strides[0], 1);
  EXPECT_EQ(plan.inner_strides[1], 0);
}

TEST(BroadcastTest, WalksEveryElement) {
  const std::vector<Shape> inputs = {Shape{2, 1, 3}, Shape{2, 1}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{2, 2, 3}, inputs);
  EXPECT_EQ(Walk(plan, 0, 0, plan.rows),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(Walk(plan, 1, 0, plan.rows),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
}

TEST(BroadcastTest, ARangeOfRowsIsThatPartOfTheWalk) {
  const std::vector<Shape> inputs = {Shape{3, 1, 2, 1}, Shape{1, 4, 1, 2}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{3, 4, 2, 2}, inputs);
  const std::vector<int64_t> all = Walk(plan, 1, 0, plan.rows);
  ASSERT_EQ(all.size(), 48U);
  const std::vector<int64_t> part = Walk(plan, 1, 5, plan.rows);
  EXPECT_EQ(part, std::vector<int64_t>(all.begin() + 5 * plan.inner, all.end()));
}

TEST(BroadcastTest, EmptyOutputHasNoElements) {
  const std::vector<Shape> inputs = {Shape{0, 3}, Shape{3}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{0, 3}, inputs);
  EXPECT_EQ(plan.rows * plan.inner, 0);
}

TEST(BroadcastTest, ScalarsAreOneElement) {
  const std::vector<Shape> inputs = {Shape{}, Shape{1, 1}};
  const BroadcastPlan plan = MakeBroadcastPlan(Shape{1, 1}, inputs);
  EXPECT_EQ(plan.rows, 1);
  EXPECT_EQ(plan.inner, 1);
}

}  // namespace
}  // namespace lockstep::op
