#include "lockstep/strategy/gradient_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/graph/builder.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::strategy {
namespace {

using ::testing::HasSubstr;

class GradientLayoutTest : public ::testing::Test {
 protected:
  Value Make(const Shape& shape, DType dtype = DType::kFloat32) {
    return op::Placeholder(b_, dtype, shape, "x");
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(GradientLayoutTest, TensorsBeginAtCacheLinesAndBucketsHoldWholeTensors) {
  const GradientLayout layout =
      GradientLayout::Create({Make(Shape{3}), Make(Shape{}), Make(Shape{4, 8}), Make(Shape{40})},
                             size_t{128} * sizeof(float))
          .value();
  ASSERT_EQ(layout.slots().size(), 4U);
  EXPECT_EQ(layout.slots()[1].begin, 16);
  EXPECT_EQ(layout.slots()[2].begin, 32);
  EXPECT_EQ(layout.slots()[3].begin, 64);
  EXPECT_EQ(layout.slots()[3].count, 40);
  EXPECT_EQ(layout.elements(), 112);
  ASSERT_EQ(layout.buckets().size(), 1U);
  EXPECT_EQ(layout.buckets()[0].count, 104);
}

TEST_F(GradientLayoutTest, ALargeTensorHasABucketOfItsOwn) {
  const GradientLayout layout =
      GradientLayout::Create({Make(Shape{3}), Make(Shape{100}), Make(Shape{2}), Make(Shape{2})},
                             size_t{20} * sizeof(float))
          .value();
  ASSERT_EQ(layout.buckets().size(), 3U);
  EXPECT_EQ(layout.buckets()[0].count, 3);
  EXPECT_EQ(layout.buckets()[1].begin, 16);
  EXPECT_EQ(layout.buckets()[1].count, 100);
  EXPECT_EQ(layout.buckets()[2].begin, 128);
  EXPECT_EQ(layout.buckets()[2].count, 18);
  EXPECT_EQ(layout.buckets()[2].first_slot, 2U);
  EXPECT_EQ(layout.buckets()[2].slots, 2U);
}

// Nothing hides the time of the last sum.
TEST_F(GradientLayoutTest, TheLastBucketIsSmall) {
  const int64_t mega = 1 << 18;  // elements of 1 MiB
  const std::vector<Value> values = {Make(Shape{4 * mega}), Make(Shape{4 * mega}),
                                     Make(Shape{mega / 2}), Make(Shape{mega / 2})};
  const GradientLayout layout = GradientLayout::Create(values, size_t{25} << 20).value();
  ASSERT_EQ(layout.buckets().size(), 2U);
  EXPECT_EQ(layout.buckets()[0].count, 8 * mega);
  EXPECT_EQ(layout.buckets()[1].count, mega);
}

TEST_F(GradientLayoutTest, WhatCannotBeAddedUpIsNamed) {
  EXPECT_THAT(GradientLayout::Create({Make(Shape{-1, 2})}, 64).status().message(),
              HasSubstr("x is float32 [?, 2]"));
  EXPECT_THAT(GradientLayout::Create({Make(Shape{2}, DType::kInt32)}, 64).status().message(),
              HasSubstr("int32 [2]"));
}

}  // namespace
}  // namespace lockstep::strategy
