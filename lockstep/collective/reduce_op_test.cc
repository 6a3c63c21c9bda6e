#include "lockstep/collective/reduce_op.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/tensor/bfloat16.h"

namespace lockstep::collective {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
std::vector<T> Apply(ReduceOp op, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out(a.size());
  Combine(op, DTypeOf<T>(), a.data(), b.data(), out.data(), static_cast<int64_t>(a.size()));
  return out;
}

TEST(ReduceOpTest, ExtremaPropagateNanAndPreferTheLeftOfEqualValues) {
  const std::vector<float> a = {1, 3, kNan, 1, kNan, 0.0F, -0.0F, kInf, -kInf};
  const std::vector<float> b = {2, 2, 1, kNan, -kNan, -0.0F, 0.0F, 1, kNan};
  const std::vector<float> most = Apply(ReduceOp::kMax, a, b);
  const std::vector<float> least = Apply(ReduceOp::kMin, a, b);
  EXPECT_EQ(most[0], 2);
  EXPECT_EQ(least[0], 1);
  EXPECT_EQ(most[1], 3);
  EXPECT_EQ(least[1], 2);
  for (const size_t i : {2, 3, 4, 8}) {
    EXPECT_TRUE(std::isnan(most[i])) << i;
    EXPECT_TRUE(std::isnan(least[i])) << i;
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(most[4]), std::bit_cast<uint32_t>(a[4]));
  EXPECT_FALSE(std::signbit(most[5]));
  EXPECT_FALSE(std::signbit(least[5]));
  EXPECT_TRUE(std::signbit(most[6]));
  EXPECT_TRUE(std::signbit(least[6]));
  EXPECT_EQ(most[7], kInf);
  EXPECT_EQ(least[7], 1);
}

TEST(ReduceOpTest, InfinityAndNanGoThroughSums) {
  const std::vector<float> sum = Apply<float>(ReduceOp::kSum, {kInf, kInf, kNan}, {1, -kInf, 1});
  EXPECT_EQ(sum[0], kInf);
  EXPECT_TRUE(std::isnan(sum[1]));
  EXPECT_TRUE(std::isnan(sum[2]));
}

TEST(ReduceOpTest, BFloat16RoundsToNearestEvenAtEveryNode) {
  // 1 + 2^-8 lies half way between 1 and 1 + 2^-7; 1 + 2^-7 + 2^-8 between that and 1 + 2^-6.
  const auto bf16 = [](float value) { return BFloat16::FromFloat(value); };
  const std::vector<BFloat16> sum = Apply<BFloat16>(ReduceOp::kSum, {bf16(1), bf16(1.0078125F)},
                                                    {bf16(0.00390625F), bf16(0.00390625F)});
  EXPECT_EQ(sum[0].ToFloat(), 1.0F);
  EXPECT_EQ(sum[1].ToFloat(), 1.015625F);
}

TEST(ReduceOpTest, IntegersWrapAroundAndTheMeanTruncates) {
  const int32_t largest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(Apply<int32_t>(ReduceOp::kSum, {largest}, {1})[0], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Apply<int32_t>(ReduceOp::kProduct, {1 << 20}, {(1 << 12) + 1})[0], 1 << 20);
  EXPECT_EQ(Apply<int64_t>(ReduceOp::kProduct, {int64_t{3} << 62}, {2})[0],
            std::numeric_limits<int64_t>::min());
  std::vector<int32_t> mean = {7, -7, 1};
  DivideByReplicas(DType::kInt32, mean.data(), 3, 2);
  EXPECT_EQ(mean, (std::vector<int32_t>{3, -3, 0}));
  DivideByReplicas(DType::kInt32, mean.data(), 3, int64_t{1} << 32);
  EXPECT_EQ(mean, (std::vector<int32_t>{0, 0, 0}));
}

TEST(ReduceOpTest, TheResultMayReplaceEitherSide) {
  std::vector<double> a = {1, 2, 3};
  std::vector<double> b = {10, 20, 30};
  Combine(ReduceOp::kSum, DType::kFloat64, a.data(), b.data(), a.data(), 3);
  EXPECT_EQ(a, (std::vector<double>{11, 22, 33}));
  Combine(ReduceOp::kProduct, DType::kFloat64, a.data(), b.data(), b.data(), 3);
  EXPECT_EQ(b, (std::vector<double>{110, 440, 990}));
}

TEST(ReduceOpTest, OtherTypesAreRefused) {
  EXPECT_TRUE(CheckReducible(DType::kBFloat16).ok());
  const Status refused = CheckReducible(DType::kBool);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("bool"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::collective
