#include "lockstep/tensor/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace lockstep {
namespace {

using Dims = std::array<int64_t, 4>;

Layout Channels8(const Shape& shape, int64_t padded_channels) {
  const int64_t height = shape[2];
  const int64_t width = shape[3];
  const Dims padded{shape[0], padded_channels, height, width};
  const Dims strides{padded_channels * height * width, height * width * 8, width * 8, 8};
  const std::array<Layout::Block, 1> blocks{{{1, 8}}};
  return Layout::Blocked(shape, padded, strides, blocks);
}

TEST(LayoutTest, RowMajorDescriptionIsPlain) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_TRUE(Layout::Blocked(shape, Dims{2, 3, 4, 5}, Dims{60, 20, 5, 1}, {}).is_plain());
  // The stride of a dimension of size one is never used.
  EXPECT_TRUE(
      Layout::Blocked(Shape{1, 3, 4, 5}, Dims{1, 3, 4, 5}, Dims{7, 20, 5, 1}, {}).is_plain());
  EXPECT_FALSE(Layout::Blocked(shape, Dims{2, 3, 4, 5}, Dims{60, 1, 15, 3}, {}).is_plain());
}

TEST(LayoutTest, BlockedOffsetsAreThoseOfNchw8c) {
  const Shape shape{2, 16, 3, 5};
  const Layout layout = Channels8(shape, 16);
  EXPECT_TRUE(layout.is_dense_for(shape));
  EXPECT_EQ(layout.OffsetOf(shape, Dims{0, 0, 0, 0}), 0);
  EXPECT_EQ(layout.OffsetOf(shape, Dims{0, 7, 0, 0}), 7);
  EXPECT_EQ(layout.OffsetOf(shape, Dims{0, 8, 0, 0}), 3 * 5 * 8);
  EXPECT_EQ(layout.OffsetOf(shape, Dims{0, 9, 1, 2}), 3 * 5 * 8 + (5 + 2) * 8 + 1);
  std::set<int64_t> seen;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t c = 0; c < 16; ++c) {
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t w = 0; w < 5; ++w) {
          seen.insert(layout.OffsetOf(shape, Dims{n, c, h, w}));
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), shape.num_elements());
  EXPECT_EQ(*seen.rbegin(), shape.num_elements() - 1);
}

TEST(LayoutTest, PaddingCountsInBytes) {
  const Shape shape{2, 10, 3, 5};
  const Layout layout = Channels8(shape, 16);
  EXPECT_FALSE(layout.is_dense_for(shape));
  EXPECT_EQ(layout.Bytes(shape, DType::kFloat32), 2U * 16 * 15 * 4);
  EXPECT_EQ(Layout().Bytes(shape, DType::kFloat32), 2U * 10 * 15 * 4);
}

TEST(LayoutTest, EqualityComparesEverything) {
  const Shape shape{2, 16, 3, 5};
  EXPECT_EQ(Channels8(shape, 16), Channels8(shape, 16));
  EXPECT_NE(Channels8(shape, 16), Layout());
}

}  // namespace
}  // namespace lockstep
