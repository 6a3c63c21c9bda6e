#include "lockstep/op/internal/channel_view.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::op {
namespace {

// The channel that the view gives to every position of the storage must be that of the element
// there.
void ExpectDescribes(const ChannelView& view, const Shape& shape, const Layout& layout, int axis) {
  ASSERT_EQ(view.outer * view.groups * view.mid * view.block, shape.num_elements());
  EXPECT_EQ(view.channels(), shape[axis]);
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int64_t flat = 0; flat < shape.num_elements(); ++flat) {
    int64_t rest = flat;
    for (size_t i = index.size(); i-- > 0;) {
      index[i] = rest % shape[static_cast<int>(i)];
      rest /= shape[static_cast<int>(i)];
    }
    const int64_t at = layout.OffsetOf(shape, index);
    const int64_t group = at / (view.mid * view.block) % view.groups;
    EXPECT_EQ(group * view.block + at % view.block, index[static_cast<size_t>(axis)])
        << "at " << at << " of " << layout.ToString();
  }
}

// A dense layout with the axes from outermost to innermost in this order.
Layout Permuted(const Shape& shape, const std::vector<int>& order) {
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride *= shape[order[i]];
  }
  return Layout::Blocked(shape, shape.dims(), strides, {});
}

TEST(ChannelViewTest, PlainLayouts) {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
           {{2, 3, 4, 5}, 3}, {{2, 3, 4, 5}, 1}, {{6, 3}, 1}, {{2, 1, 4, 5}, 1}, {{2, 3, 1}, 2}}) {
    const auto view = MakeChannelView(shape, Layout(), axis);
    ASSERT_TRUE(view.has_value());
    ExpectDescribes(*view, shape, Layout(), axis);
  }
}

TEST(ChannelViewTest, ChannelsLastUnderChannelsFirstDimensions) {
  const Shape shape = {2, 3, 4, 5};
  const Layout layout = Permuted(shape, {0, 2, 3, 1});
  const auto view = MakeChannelView(shape, layout, 1);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->block, 3);
  ExpectDescribes(*view, shape, layout, 1);
}

TEST(ChannelViewTest, AnyOrderOfAxes) {
  const Shape shape = {2, 3, 4, 5};
  for (const std::vector<int>& order : {std::vector<int>{3, 2, 1, 0}, {1, 0, 2, 3}, {2, 1, 3, 0}}) {
    for (int axis = 0; axis < 4; ++axis) {
      const Layout layout = Permuted(shape, order);
      const auto view = MakeChannelView(shape, layout, axis);
      ASSERT_TRUE(view.has_value());
      ExpectDescribes(*view, shape, layout, axis);
    }
  }
}

TEST(ChannelViewTest, BlockedChannels) {
  for (const int64_t channels : {8, 24}) {
    const Shape shape = {2, channels, 3, 2};
    const std::vector<int64_t> strides = {channels * 6, 48, 16, 8};
    const std::vector<Layout::Block> blocks = {{1, 8}};
    const Layout layout = Layout::Blocked(shape, shape.dims(), strides, blocks);
    const auto view = MakeChannelView(shape, layout, 1);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->block, 8);
    ExpectDescribes(*view, shape, layout, 1);
    EXPECT_FALSE(MakeChannelView(shape, layout, 2).has_value());
  }
}

TEST(ChannelViewTest, PaddedLayoutsAreNotDescribed) {
  const Shape shape = {2, 3, 2, 2};
  const std::vector<int64_t> padded = {2, 8, 2, 2};
  const std::vector<int64_t> strides = {32, 32, 16, 8};
  const std::vector<Layout::Block> blocks = {{1, 8}};
  EXPECT_FALSE(
      MakeChannelView(shape, Layout::Blocked(shape, padded, strides, blocks), 1).has_value());
}

TEST(ChannelViewTest, EmptyTensorsHaveNoRows) {
  const auto view = MakeChannelView({0, 3}, Layout(), 1);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->outer, 0);
  EXPECT_EQ(view->channels(), 3);
}

TEST(ChannelAxisTest, KnowsTwoFormats) {
  EXPECT_EQ(ChannelAxis("NHWC", 4).value(), 3);
  EXPECT_EQ(ChannelAxis("NCHW", 4).value(), 1);
  EXPECT_EQ(ChannelAxis("NCHW", 2).value(), 1);
  EXPECT_NE(ChannelAxis("NCWH", 4).status().message().find("'NCWH'"), std::string::npos);
  EXPECT_FALSE(ChannelAxis("NHWC", 1).ok());
}

}  // namespace
}  // namespace lockstep::op
