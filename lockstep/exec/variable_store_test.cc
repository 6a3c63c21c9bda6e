#include "lockstep/exec/variable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace lockstep::exec {
namespace {

using ::testing::HasSubstr;

Tensor Counting(const Shape& shape) {
  Tensor tensor = Tensor::Allocate(DType::kFloat32, shape).value();
  const auto values = tensor.values<float>();
  std::iota(values.begin(), values.end(), 1.0F);
  return tensor;
}

TEST(VariableStoreTest, WritesAndReads) {
  VariableStore store;
  ASSERT_TRUE(store.GetOrCreate("w", DType::kFloat32, Shape{2, 3}).ok());
  EXPECT_THAT(store.Read("w").status().message(), HasSubstr("variable 'w' is not initialised"));
  const Tensor value = Counting(Shape{2, 3});
  ASSERT_TRUE(store.Write("w", value).ok());
  EXPECT_EQ(store.Read("w").value().ToDoubles(), value.ToDoubles());
  // A copy: the caller's tensor is its own.
  value.values<float>()[0] = 99;
  EXPECT_EQ(store.Read("w").value().values<float>()[0], 1);
}

TEST(VariableStoreTest, ErrorsSayWhatDiffers) {
  VariableStore store;
  ASSERT_TRUE(store.GetOrCreate("w", DType::kFloat32, Shape{2, 3}).ok());
  EXPECT_THAT(store.GetOrCreate("w", DType::kFloat32, Shape{3, 2}).status().message(),
              HasSubstr("variable 'w' is float32 [3, 2] here, it was made as float32 [2, 3]"));
  EXPECT_FALSE(store.GetOrCreate("v", DType::kFloat32, Shape{-1}).ok());
  EXPECT_EQ(store.Find("v"), nullptr);
  EXPECT_EQ(store.Read("v").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Write("v", Counting(Shape{2})).code(), StatusCode::kNotFound);
  EXPECT_THAT(store.Write("w", Counting(Shape{6})).message(),
              HasSubstr("its new value float32 [6]"));
}

TEST(VariableStoreTest, RelayoutKeepsTheContents) {
  VariableStore store;
  const Shape shape{3, 5};
  Variable* variable = store.GetOrCreate("w", DType::kFloat32, shape).value();
  ASSERT_TRUE(store.Write("w", Counting(shape)).ok());
  // Columns in blocks of four, padded to eight.
  const std::array<int64_t, 2> padded = {3, 8};
  const std::array<int64_t, 2> strides = {4, 12};
  const std::array<Layout::Block, 1> blocks = {{{1, 4}}};
  const Layout blocked = Layout::Blocked(shape, padded, strides, blocks);
  ASSERT_TRUE(Relayout(*variable, blocked).ok());
  EXPECT_EQ(variable->layout, blocked);
  const auto* stored = static_cast<const float*>(variable->buffer->data());
  EXPECT_EQ(stored[4], 6);   // row 1, column 0
  EXPECT_EQ(stored[12], 5);  // row 0, column 4
  EXPECT_EQ(stored[13], 0);  // padding
  EXPECT_EQ(store.Read("w").value().ToDoubles(), Counting(shape).ToDoubles());
  ASSERT_TRUE(Relayout(*variable, Layout()).ok());
  EXPECT_EQ(store.Read("w").value().ToDoubles(), Counting(shape).ToDoubles());
}

TEST(VariableStoreTest, ListsInOrderOfName) {
  VariableStore store;
  for (const char* name : {"b", "a/x", "a"}) {
    ASSERT_TRUE(store.GetOrCreate(name, DType::kFloat32, Shape{}).ok());
  }
  std::vector<std::string> names;
  for (const Variable* variable : store.All()) {
    names.push_back(variable->name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "a/x", "b"));
  store.Clear();
  EXPECT_TRUE(store.All().empty());
}

}  // namespace
}  // namespace lockstep::exec
