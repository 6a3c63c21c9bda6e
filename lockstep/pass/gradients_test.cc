#include "lockstep/pass/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/op/activation.h"
#include "lockstep/op/arg_max.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"

namespace lockstep::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GradientsTest : public ::testing::Test {
 protected:
  Value Input(const Shape& shape, std::string_view name = "x") {
    return op::Placeholder(b_, DType::kFloat32, shape, name);
  }

  Result<Gradient> Grad(Value y, Value x) {
    const Value ys[] = {y};
    const Value xs[] = {x};
    Result<std::vector<Gradient>> gradients = Gradients(b_, ys, xs);
    if (!gradients.ok()) {
      return gradients.status();
    }
    return (*gradients)[0];
  }

  std::vector<double> Eval(Value value, const std::vector<std::pair<Value, Tensor>>& feeds) {
    op::testing::Interpreter run(op::testing::Interpreter::Mode::kKernels);
    for (const auto& [fed, tensor] : feeds) {
      run.Feed(fed, op::testing::ToDoubleTensor(tensor));
    }
    const Result<op::testing::DoubleTensor> out = run.Evaluate(graph_, value);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? out->values : std::vector<double>{};
  }

  static Tensor Vector(std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return Tensor::From<float>(Shape{count}, values).value();
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(GradientsTest, SumsOverAllPaths) {
  const Value x = Input({2});
  const Value y = op::Add(b_, op::Mul(b_, x, x), op::Mul(b_, x, op::Scalar(b_, 3.0)));
  const Value dx = Grad(y, x).value().dense;
  EXPECT_THAT(Eval(dx, {{x, Vector({2, -5})}}), ElementsAre(7, -7));
}

TEST_F(GradientsTest, SecondAndThirdDerivatives) {
  const Value x = Input({3});
  const Value y = op::Mul(b_, op::Square(b_, x), x);
  const Value first = Grad(y, x).value().dense;
  const Value second = Grad(first, x).value().dense;
  const Value third = Grad(second, x).value().dense;
  const std::vector<std::pair<Value, Tensor>> feeds = {{x, Vector({1, -2, 0.5})}};
  EXPECT_THAT(Eval(first, feeds), ElementsAre(3, 12, 0.75));
  EXPECT_THAT(Eval(second, feeds), ElementsAre(6, -12, 3));
  EXPECT_THAT(Eval(third, feeds), ElementsAre(6, 6, 6));
}

TEST_F(GradientsTest, SecondDerivativeOfATanhLayer) {
  // d2/dx2 tanh(w x) = -2 w^2 tanh (1 - tanh^2).
  const Value x = Input({1, 1});
  const Value w = op::Const(b_, Tensor::From<float>(Shape{1, 1}, {1.5}));
  const Value y = op::Tanh(b_, op::MatMul(b_, x, w));
  const Value first = Grad(y, x).value().dense;
  const Value second = Grad(first, x).value().dense;
  const float t = std::tanh(1.5F * 0.4F);
  const Tensor at = Tensor::From<float>(Shape{1, 1}, {0.4F}).value();
  EXPECT_NEAR(Eval(second, {{x, at}})[0], -2 * 2.25F * t * (1 - t * t), 1e-5);
}

TEST_F(GradientsTest, UnrelatedValuesHaveNoGradient) {
  const Value x = Input({2}, "x");
  const Value z = Input({2}, "z");
  EXPECT_TRUE(Grad(op::Square(b_, x), z).value().is_zero());
  EXPECT_TRUE(Grad(op::Square(b_, op::StopGradient(b_, x)), x).value().is_zero());
}

TEST_F(GradientsTest, AnOpWithoutAGradientIsNamedWithItsLine) {
  const Value x = Input({2});
  const Value w = op::Variable(b_, "w", op::Const(b_, Vector({1, 1})));
  const int line = __LINE__ + 1;
  const Value assigned = op::AssignAdd(b_, w, x);
  EXPECT_THAT(Grad(assigned, x).status().message(),
              HasSubstr("has to pass through op AssignAdd 'AssignAdd' (" + std::string(__FILE__) +
                        ":" + std::to_string(line) + "), which has none"));
}

TEST_F(GradientsTest, IntegersAreRefused) {
  const Value x = Input({2, 2});
  EXPECT_THAT(Grad(op::ArgMax(b_, x), x).status().message(), HasSubstr("is int64"));
  // Through an integer nothing flows.
  const Value y = op::Cast(b_, op::ArgMax(b_, x), DType::kFloat32);
  EXPECT_TRUE(Grad(y, x).value().is_zero());
}

TEST_F(GradientsTest, GatherGivesRowsThatAddUp) {
  const Value table = Input({4, 2}, "table");
  const Value rows = op::Const(b_, Tensor::From<int32_t>(Shape{3}, {2, 0, 2}));
  const Value more = op::Const(b_, Tensor::From<int32_t>(Shape{1}, {0}));
  const Value y = op::Add(b_, op::ReduceSum(b_, op::Gather(b_, table, rows)),
                          op::ReduceSum(b_, op::Square(b_, op::Gather(b_, table, more))));
  const Gradient gradient = Grad(y, table).value();
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.values.shape(), (Shape{4, 2}));
  const Value dense = DenseGradient(b_, gradient, table);
  const Tensor at = Tensor::From<float>(Shape{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).value();
  EXPECT_THAT(Eval(dense, {{table, at}}), ElementsAre(3, 5, 0, 0, 2, 2, 0, 0));
}

TEST_F(GradientsTest, GivenOutputGradients) {
  const Value x = Input({2});
  const Value ys[] = {op::Square(b_, x)};
  const Value xs[] = {x};
  const Value seeds[] = {op::Const(b_, Vector({10, 100}))};
  const Value dx = Gradients(b_, ys, xs, seeds).value()[0].dense;
  EXPECT_THAT(Eval(dx, {{x, Vector({1, 2})}}), ElementsAre(20, 400));
  const Value wrong[] = {op::Const(b_, Vector({1, 2, 3}))};
  EXPECT_FALSE(Gradients(b_, ys, xs, wrong).ok());
}

}  // namespace
}  // namespace lockstep::pass
