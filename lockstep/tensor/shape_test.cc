#include "lockstep/tensor/shape.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

TEST(ShapeTest, PrintsUnknownDimensions) {
  EXPECT_EQ((Shape{-1, 28, 28, 1}).ToString(), "[?, 28, 28, 1]");
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ(Shape{}.num_elements(), 1);
}

TEST(ShapeTest, CreateRefusesHostileDimensions) {
  const std::array<int64_t, 3> overflow = {int64_t{1} << 40, int64_t{1} << 40, 2};
  EXPECT_FALSE(Shape::Create(overflow).ok());
  const std::array<int64_t, 2> negative = {3, -2};
  EXPECT_FALSE(Shape::Create(negative).ok());
  const std::array<int64_t, 9> rank9 = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_FALSE(Shape::Create(rank9).ok());
  const std::array<int64_t, 3> zero = {int64_t{1} << 40, int64_t{1} << 40, 0};
  EXPECT_EQ(Shape::Create(zero).value().num_elements(), 0);
  const std::array<int64_t, 2> largest = {(int64_t{1} << 62) - 1, 1};
  EXPECT_EQ(Shape::Create(largest).value().num_elements(), (int64_t{1} << 62) - 1);
  const std::array<int64_t, 2> too_large = {int64_t{1} << 61, 2};
  EXPECT_FALSE(Shape::Create(too_large).ok());
}

TEST(ShapeTest, Broadcast) {
  EXPECT_EQ(BroadcastShapes(Shape{4, 1, 3}, Shape{2, 3}).value(), (Shape{4, 2, 3}));
  EXPECT_EQ(BroadcastShapes(Shape{-1, 3}, Shape{1, 3}).value(), (Shape{-1, 3}));
  EXPECT_EQ(BroadcastShapes(Shape{-1, 3}, Shape{5, 1}).value(), (Shape{5, 3}));
  EXPECT_EQ(BroadcastShapes(Shape{0, 3}, Shape{1, 1}).value(), (Shape{0, 3}));
  EXPECT_EQ(BroadcastShapes(Shape{}, Shape{7}).value(), (Shape{7}));
  EXPECT_FALSE(BroadcastShapes(Shape{2}, Shape{3}).ok());
}

TEST(ShapeTest, NormalizeAxis) {
  EXPECT_EQ(NormalizeAxis(-1, 4).value(), 3);
  EXPECT_EQ(NormalizeAxis(0, 4).value(), 0);
  EXPECT_EQ(NormalizeAxis(4, 4).status().message(),
            "axis 4 is out of range for rank 4: allowed are -4 to 3");
}

TEST(ShapeTest, Compatibility) {
  EXPECT_TRUE((Shape{-1, 3}).CompatibleWith(Shape{5, 3}));
  EXPECT_FALSE((Shape{-1, 3}).CompatibleWith(Shape{5, 4}));
  EXPECT_FALSE((Shape{3}).CompatibleWith(Shape{1, 3}));
}

}  // namespace
}  // namespace lockstep
