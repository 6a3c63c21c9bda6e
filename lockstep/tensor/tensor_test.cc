#include "lockstep/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(TensorTest, SharesAndReshapes) {
  const Tensor a = Tensor::From<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}).value();
  EXPECT_TRUE(a.unique());
  const Tensor b = a.Reshaped(Shape{3, 2}).value();
  EXPECT_FALSE(a.unique());
  EXPECT_EQ(a.data(), b.data());
  EXPECT_EQ(a.Reshaped(Shape{4}).status().code(), StatusCode::kInvalidArgument);
}

TEST(TensorTest, WrongCountIsAnError) {
  EXPECT_EQ(Tensor::From<float>(Shape{2, 3}, {1, 2}).status().message(),
            "a tensor of shape [2, 3] cannot hold 2 values");
}

TEST(TensorTest, EmptyAndUnknownShapes) {
  const Tensor empty = Tensor::Zeros(DType::kInt64, Shape{0, 5}).value();
  EXPECT_EQ(empty.num_elements(), 0);
  EXPECT_TRUE(empty.values<int64_t>().empty());
  EXPECT_FALSE(Tensor::Allocate(DType::kFloat32, Shape{-1, 5}).ok());
}

TEST(TensorTest, ImpossibleSizesAreErrors) {
  const Shape huge{int64_t{1} << 40, int64_t{1} << 21};
  EXPECT_EQ(Tensor::Allocate(DType::kFloat64, huge).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(TensorTest, ViewsMustLieInside) {
  const std::shared_ptr<Buffer> buffer = Buffer::Allocate(16).value();
  EXPECT_TRUE(Tensor::View(DType::kFloat32, Shape{2}, buffer, 8).ok());
  EXPECT_EQ(Tensor::View(DType::kFloat32, Shape{3}, buffer, 8).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_FALSE(Tensor::View(DType::kFloat32, Shape{1}, buffer, 2).ok());
  EXPECT_FALSE(Tensor::View(DType::kFloat32, Shape{1}, buffer, 400).ok());
}

TEST(TensorTest, ConversionSaturates) {
  const float source[] = {1.9F, -1.9F, 3e9F, -3e9F, std::nanf("")};
  int32_t target[5];
  ConvertElements(DType::kFloat32, source, DType::kInt32, target, 5);
  EXPECT_EQ(target[0], 1);
  EXPECT_EQ(target[1], -1);
  EXPECT_EQ(target[2], std::numeric_limits<int32_t>::max());
  EXPECT_EQ(target[3], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(target[4], 0);
}

TEST(TensorTest, Prints) {
  EXPECT_EQ(Tensor::From<int32_t>(Shape{3}, {1, 2, 3}).value().ToString(2),
            "int32 [3] = {1, 2, ...}");
}

}  // namespace
}  // namespace lockstep
