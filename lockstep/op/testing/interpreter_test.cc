#include "lockstep/op/testing/interpreter.h"

#include <gtest/gtest.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::op::testing {
namespace {

DoubleTensor Vector(std::vector<double> values, DType dtype = DType::kFloat32) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return {dtype, shape, std::move(values)};
}

class InterpreterTest : public ::testing::TestWithParam<Interpreter::Mode> {
 protected:
  Graph graph_{Catalog()};
  Builder b_{graph_};
  Interpreter run_{GetParam()};
};

TEST_P(InterpreterTest, RunsWhatAValueNeeds) {
  const Value x = Placeholder(b_, DType::kFloat32, {3});
  const Value y = Relu(b_, Mul(b_, x, Scalar(b_, -2.0)));
  run_.Feed(x, Vector({1, -2, 3}));
  const auto result = run_.Evaluate(graph_, y);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->values, (std::vector<double>{0, 4, 0}));
}

TEST_P(InterpreterTest, AFedValueIsNotComputed) {
  const Value x = Placeholder(b_, DType::kFloat32, {2});
  const Value doubled = Add(b_, x, x);
  const Value y = Add(b_, doubled, doubled);
  run_.Feed(doubled, Vector({1, 5}));
  const auto result = run_.Evaluate(graph_, y);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->values, (std::vector<double>{2, 10}));
}

TEST_P(InterpreterTest, AMissingFeedIsAnErrorThatNamesIt) {
  const Value y = Relu(b_, Placeholder(b_, DType::kFloat32, {2}, "image"));
  const auto result = run_.Evaluate(graph_, y);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("'image'"), std::string::npos);
}

TEST_P(InterpreterTest, VariablesKeepTheirValues) {
  const Value v = Variable(b_, "v", Const(b_, Tensor::From<float>(Shape{2}, {1, 2})));
  const Value step = AssignAdd(b_, v, Const(b_, Tensor::From<float>(Shape{2}, {10, 20})));
  ASSERT_TRUE(b_.status().ok()) << b_.status().ToString();
  const Node* init = Group(b_, std::vector<Value>{graph_.Collection(collection::kInitializers)[0]});
  ASSERT_TRUE(run_.Run(graph_, *init).ok());
  ASSERT_TRUE(run_.Run(graph_, *step.node).ok());
  ASSERT_TRUE(run_.Run(graph_, *step.node).ok());
  const auto result = run_.Evaluate(graph_, v);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->values, (std::vector<double>{21, 42}));
}

// There is no bfloat16 kernel; results still have the type's precision.
TEST_P(InterpreterTest, TypesWithoutKernelUseTheReference) {
  const Value x = Placeholder(b_, DType::kBFloat16, {1});
  const Value y = Add(b_, x, x);
  run_.Feed(x, Vector({1.5}, DType::kBFloat16));
  const auto result = run_.Evaluate(graph_, y);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->values, (std::vector<double>{3}));
}

INSTANTIATE_TEST_SUITE_P(Modes, InterpreterTest,
                         ::testing::Values(Interpreter::Mode::kKernels,
                                           Interpreter::Mode::kReferences));

}  // namespace
}  // namespace lockstep::op::testing
