#include "lockstep/op/reshape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::op {
namespace {

using ::testing::HasSubstr;

class ReshapeTest : public ::testing::Test {
 protected:
  // The shape that Reshape infers, or its error.
  std::string Inferred(const Shape& from, const Shape& to) {
    Builder b(graph_);
    const Value y = Reshape(b, Placeholder(b, DType::kFloat32, from), to);
    return y.valid() ? y.shape().ToString() : b.status().message();
  }

  std::string Flattened(const Shape& from) {
    Builder b(graph_);
    const Value y = Flatten(b, Placeholder(b, DType::kFloat32, from));
    return y.valid() ? y.shape().ToString() : b.status().message();
  }

  Graph graph_{Catalog()};
};

TEST_F(ReshapeTest, TheOpenDimensionIsWhatIsLeft) {
  EXPECT_EQ(Inferred({2, 3, 4}, {-1, 8}), "[3, 8]");
  EXPECT_EQ(Inferred({2, 3, 4}, {24}), "[24]");
  EXPECT_EQ(Inferred({0, 3}, {-1, 3}), "[0, 3]");
  EXPECT_EQ(Inferred({-1, 3, 4}, {-1, 12}), "[?, 12]");
}

TEST_F(ReshapeTest, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(Inferred({2, 3}, {4}), HasSubstr("[2, 3] cannot become [4]"));
  EXPECT_THAT(Inferred({2, 3}, {-1, 4}), HasSubstr("cannot become"));
  EXPECT_THAT(Inferred({2, 3}, {-1, 0}), HasSubstr("cannot become"));
  EXPECT_THAT(Inferred({0, 3}, {-1, 0}), HasSubstr("cannot become"));
  EXPECT_THAT(Inferred({2, 3}, {-1, -1}), HasSubstr("one dimension of -1"));
  EXPECT_THAT(Inferred({2, 3}, {int64_t{1} << 40, int64_t{1} << 40}), HasSubstr("2^62"));
  EXPECT_THAT(Inferred({2, 3}, {int64_t{1} << 40, int64_t{1} << 40, 0}),
              HasSubstr("cannot become"));
}

TEST_F(ReshapeTest, FlattenKeepsTheBatch) {
  EXPECT_EQ(Flattened({-1, 28, 28, 1}), "[?, 784]");
  EXPECT_EQ(Flattened({0, 3, 4}), "[0, 12]");
  EXPECT_EQ(Flattened({5, -1, 4}), "[5, ?]");
  EXPECT_THAT(Flattened({5}), HasSubstr("rank 2 or more"));
}

}  // namespace
}  // namespace lockstep::op
