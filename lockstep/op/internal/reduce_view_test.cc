#include "lockstep/op/internal/reduce_view.h"

#include <gtest/gtest.h>

namespace lockstep::op {
namespace {

std::vector<bool> Axes(std::vector<int64_t> axes, int rank) {
  return ReducedAxes(axes, rank).value();
}

TEST(ReducedAxesTest, NoneMeansAllAndNegativeCountsFromTheEnd) {
  EXPECT_EQ(Axes({}, 2), (std::vector<bool>{true, true}));
  EXPECT_EQ(Axes({-1, 0}, 3), (std::vector<bool>{true, false, true}));
}

TEST(ReducedAxesTest, RefusesDoublesAndOutOfRange) {
  EXPECT_NE(ReducedAxes(std::vector<int64_t>{1, -1}, 2).status().message().find("twice"),
            std::string::npos);
  EXPECT_FALSE(ReducedAxes(std::vector<int64_t>{2}, 2).ok());
}

TEST(ReducedShapeTest, DropsOrKeepsAxes) {
  EXPECT_EQ(ReducedShape({2, 3, 4}, Axes({1}, 3), false), (Shape{2, 4}));
  EXPECT_EQ(ReducedShape({2, -1, 4}, Axes({1}, 3), true), (Shape{2, 1, 4}));
}

TEST(ReduceViewTest, MergesNeighboursAndDropsAxesOfSizeOne) {
  const ReduceView view = MakeReduceView({2, 3, 1, 4, 5}, Axes({0, 1, 2}, 5));
  ASSERT_EQ(view.reduced.size(), 1U);
  EXPECT_EQ(view.reduced[0].size, 6);
  EXPECT_EQ(view.reduced[0].stride, 20);
  ASSERT_EQ(view.kept.size(), 1U);
  EXPECT_EQ(view.kept[0].size, 20);
  EXPECT_FALSE(view.inner_reduced);
  EXPECT_EQ(view.reduced_count, 6);
  EXPECT_EQ(view.kept_count, 20);
}

TEST(ReduceViewTest, MergesAcrossAnAxisOfSizeOneOfTheOtherKind) {
  const ReduceView view = MakeReduceView({2, 1, 3}, Axes({1}, 3));
  ASSERT_EQ(view.kept.size(), 1U);
  EXPECT_EQ(view.kept[0].size, 6);
  EXPECT_TRUE(view.reduced.empty());
  EXPECT_EQ(view.reduced_count, 1);
}

TEST(OdometerTest, VisitsEveryOffsetInOrderAndCanStartAnywhere) {
  const ReduceView view = MakeReduceView({2, 3, 4}, Axes({1}, 3));
  Odometer odometer(view.kept, false);
  ASSERT_EQ(odometer.positions(), 8);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < odometer.positions(); ++i, odometer.Next()) {
    offsets.push_back(odometer.offset());
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1, 2, 3, 12, 13, 14, 15}));
  odometer.Seek(5);
  EXPECT_EQ(odometer.offset(), 13);
}

TEST(OdometerTest, HasOnePositionWithoutDimensions) {
  const std::vector<ReduceView::Dim> none;
  EXPECT_EQ(Odometer(none, true).positions(), 1);
  EXPECT_EQ(Odometer(none, false).positions(), 1);
}

}  // namespace
}  // namespace lockstep::op
