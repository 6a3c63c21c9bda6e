#include "lockstep/op/binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/testing/run_op.h"
#include "lockstep/op/unary.h"

namespace lockstep::op {
namespace {

using ::testing::HasSubstr;

class BinaryTest : public ::testing::Test {
 protected:
  Value Input(const Shape& shape, DType dtype = DType::kFloat32) {
    return Placeholder(b_, dtype, shape);
  }

  // The gradients of y's node for ones.
  std::vector<testing::DoubleTensor> Gradients(Value y, const std::vector<std::vector<double>>& x) {
    testing::Interpreter run(testing::Interpreter::Mode::kKernels);
    for (size_t i = 0; i < x.size(); ++i) {
      run.Feed(y.node->inputs[i], {DType::kFloat32, y.node->inputs[i].shape(), x[i]});
    }
    const Value dy = Input(y.shape());
    run.Feed(dy, {DType::kFloat32, y.shape(),
                  std::vector<double>(static_cast<size_t>(y.shape().num_elements()), 1.0)});
    GradContext ctx(b_, *y.node, {dy});
    EXPECT_TRUE(y.node->op->grad(ctx).ok());
    std::vector<Value> values;
    for (const Gradient& gradient : ctx.TakeInputGrads()) {
      values.push_back(gradient.dense);
    }
    const auto result = run.Evaluate(graph_, values);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? *result : std::vector<testing::DoubleTensor>(values.size());
  }

  Graph graph_{Catalog()};
  Builder b_{graph_};
};

TEST_F(BinaryTest, TiesGiveTheGradientToTheFirst) {
  const std::vector<std::vector<double>> x = {{1, 2, 3}, {3, 2, 1}};
  const auto larger = Gradients(Maximum(b_, Input({3}), Input({3})), x);
  EXPECT_EQ(larger[0].values, (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(larger[1].values, (std::vector<double>{1, 0, 0}));
  const auto smaller = Gradients(Minimum(b_, Input({3}), Input({3})), x);
  EXPECT_EQ(smaller[0].values, (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(smaller[1].values, (std::vector<double>{0, 0, 1}));
}

TEST_F(BinaryTest, GradientsOfKinksFollowTensorFlow) {
  const auto at = [&](Value y, std::vector<double> x) { return Gradients(y, {std::move(x)})[0]; };
  EXPECT_EQ(at(Abs(b_, Input({3})), {-2, 0, 2}).values, (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(at(Relu(b_, Input({3})), {-2, 0, 2}).values, (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(at(Clip(b_, Input({4}), -1, 1), {-2, -1, 1, 2}).values,
            (std::vector<double>{0, 1, 1, 0}));
}

TEST_F(BinaryTest, PowersOfZeroHaveAFiniteGradient) {
  const auto gradients = Gradients(Pow(b_, Input({2}), Input({2})), {{0, 2}, {2, 3}});
  EXPECT_EQ(gradients[0].values, (std::vector<double>{0, 12}));
  EXPECT_EQ(gradients[1].values[0], 0.0);
  EXPECT_NEAR(gradients[1].values[1], 8.0 * std::log(2.0), 1e-5);
}

// The open batch may turn out to be repeated only where another input brings it.
TEST_F(BinaryTest, GradientsAreSummedOnlyWhereTheyMayRepeat) {
  const auto sums = [&](const Shape& x, const Shape& y) {
    const Value z = Add(b_, Input(x), Input(y));
    GradContext ctx(b_, *z.node, {Input(z.shape())});
    EXPECT_TRUE(z.node->op->grad(ctx).ok());
    std::string text;
    for (const Gradient& gradient : ctx.TakeInputGrads()) {
      text += gradient.dense.node->op->name == "SumLike" ? 's' : '-';
    }
    return text;
  };
  EXPECT_EQ(sums({-1, 3}, {3}), "-s");
  EXPECT_EQ(sums({-1, 3}, {-1, 3}), "ss");
  EXPECT_EQ(sums({2, 3}, {2, 3}), "--");
  EXPECT_EQ(sums({2, 3}, {}), "-s");
  EXPECT_EQ(sums({2, 1}, {2, 3}), "s-");
}

TEST_F(BinaryTest, NanWinsInMaximumAndMinimum) {
  const Tensor inputs[] = {Tensor::From<float>(Shape{3}, {NAN, 1, NAN}).value(),
                           Tensor::From<float>(Shape{3}, {1, NAN, NAN}).value()};
  for (const char* op : {"Maximum", "Minimum"}) {
    const auto result = testing::RunOp(op, inputs);
    ASSERT_TRUE(result.ok());
    for (const float value : (*result)[0].values<float>()) {
      EXPECT_TRUE(std::isnan(value)) << op;
    }
  }
}

TEST_F(BinaryTest, IntegersWrapAround) {
  const Tensor inputs[] = {Tensor::Scalar<int32_t>(INT32_MAX).value(),
                           Tensor::Scalar<int32_t>(2).value()};
  const auto sum = testing::RunOp("Add", inputs);
  const auto product = testing::RunOp("Mul", inputs);
  ASSERT_TRUE(sum.ok() && product.ok());
  EXPECT_EQ((*sum)[0].values<int32_t>()[0], INT32_MIN + 1);
  EXPECT_EQ((*product)[0].values<int32_t>()[0], -2);
}

TEST_F(BinaryTest, WrongInputsAreErrorsThatSayWhy) {
  const auto message = [&](auto make) {
    Builder b(graph_);
    make(b);
    return b.status().message();
  };
  EXPECT_THAT(message([&](Builder& b) {
                Add(b, Input({2, 3}), Input({4}));
              }),
              HasSubstr("[2, 3] and [4] do not broadcast"));
  EXPECT_THAT(message([&](Builder& b) { Add(b, Input({2}), Input({2}, DType::kInt32)); }),
              HasSubstr("float32 and int32"));
  EXPECT_THAT(
      message([&](Builder& b) { Div(b, Input({2}, DType::kInt32), Input({2}, DType::kInt32)); }),
      HasSubstr("int32"));
  EXPECT_THAT(message([&](Builder& b) { Exp(b, Input({2}, DType::kInt32)); }), HasSubstr("int32"));
  EXPECT_THAT(message([&](Builder& b) { Clip(b, Input({2}), 1.0, -1.0); }),
              HasSubstr("low <= high"));
  EXPECT_THAT(message([&](Builder& b) { Clip(b, Input({2}), NAN, 1.0); }),
              HasSubstr("low <= high"));
  EXPECT_THAT(message([&](Builder& b) { Elu(b, Input({2}), 0.0); }), HasSubstr("more than 0"));
  EXPECT_THAT(message([&](Builder& b) { LeakyRelu(b, Input({2}), INFINITY); }),
              HasSubstr("alpha is inf"));
}

}  // namespace
}  // namespace lockstep::op
