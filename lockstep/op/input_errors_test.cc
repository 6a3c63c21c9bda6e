// Values that only a step can bring, and that ops must refuse with a message that says where.

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/op/testing/run_op.h"

namespace lockstep::op {
namespace {

using testing::RunOp;

template <class T>
Tensor Make(const Shape& shape, std::vector<T> values) {
  return *Tensor::From<T>(shape, values);
}

void ExpectRefused(const Result<std::vector<Tensor>>& result, std::string_view part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().ToString();
}

TEST(InputErrorsTest, LabelsOutsideTheClasses) {
  const Tensor logits = Make<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const int64_t label : {int64_t{3}, int64_t{-2}, INT64_MAX, INT64_MIN}) {
    const std::vector<Tensor> inputs = {logits, Make<int64_t>({2}, {0, label})};
    ExpectRefused(RunOp("SparseSoftmaxCrossEntropyWithLogits", inputs),
                  "row 1 has the label " + std::to_string(label) + ", allowed are 0 to 2, and -1");
  }
  const std::vector<Tensor> grad_inputs = {Make<float>({2}, {1, 1}), logits,
                                           Make<int32_t>({2}, {0, 7})};
  ExpectRefused(RunOp("SparseSoftmaxCrossEntropyGrad", grad_inputs), "row 1 has the label 7");
}

TEST(InputErrorsTest, IndicesOutsideTheTable) {
  const Tensor table = Make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  for (const int64_t index : {int64_t{3}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::vector<Tensor> inputs = {table, Make<int64_t>({2}, {2, index})};
    ExpectRefused(RunOp("Gather", inputs), "index " + std::to_string(index) +
                                               " at position 1 is out of range, allowed are "
                                               "0 to 2");
  }
  const std::vector<Tensor> scatter = {Make<int32_t>({2}, {0, 3}),
                                       Make<float>({2, 2}, {1, 2, 3, 4}), table};
  ExpectRefused(RunOp("ScatterAddRows", scatter), "index 3 at position 1");
}

TEST(InputErrorsTest, SparseUpdatesWriteNothingAfterABadIndex) {
  const std::vector<Tensor> inputs = {Make<float>({2, 1}, {1, 2}), Make<float>({}, {0.5F}),
                                      Make<int64_t>({2}, {0, 2}), Make<float>({2, 1}, {1, 1})};
  ExpectRefused(RunOp("SparseApplyGradientDescent", inputs), "index 2 at position 1");
  EXPECT_EQ(inputs[0].values<float>()[0], 1.0F);
}

TEST(InputErrorsTest, StepsCountFromOne) {
  for (const int64_t step : {0, -5}) {
    const std::vector<Tensor> inputs = {Make<float>({1}, {1}),   Make<float>({1}, {0}),
                                        Make<float>({1}, {0}),   Make<int64_t>({}, {step}),
                                        Make<float>({}, {0.1F}), Make<float>({1}, {1})};
    ExpectRefused(RunOp("ApplyAdam", inputs), "the step is " + std::to_string(step));
    ExpectRefused(RunOp("ApplyLamb", inputs), "the step is " + std::to_string(step));
  }
}

TEST(InputErrorsTest, UntouchedElementsStayFinite) {
  // No gradient ever, no epsilon: TensorFlow's formula would divide 0 by 0.
  const std::vector<Tensor> inputs = {Make<float>({2}, {1, 2}), Make<float>({2}, {0, 0}),
                                      Make<float>({}, {0.1F}), Make<float>({2}, {0, 3})};
  const auto result = RunOp("ApplyAdagrad", inputs);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ((*result)[0].values<float>()[0], 1.0F);
  EXPECT_FLOAT_EQ((*result)[0].values<float>()[1], 1.9F);
}

}  // namespace
}  // namespace lockstep::op
