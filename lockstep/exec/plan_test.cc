#include "lockstep/exec/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/exec/session.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/group.h"
#include "lockstep/op/initializers.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::exec {
namespace {

using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> NewSession(std::shared_ptr<VariableStore> store = nullptr) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    return Session::Create(graph_, {}, std::move(store)).value();
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(PlanTest, ATrainingStepKeepsBlockedLayouts) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 14, 14, 32}, "x");
  const Value w1 = op::InitializedVariable(b_, "w1", Shape{3, 3, 32, 32}, op::HeNormal());
  const Value w2 = op::InitializedVariable(b_, "w2", Shape{3, 3, 32, 64}, op::HeNormal());
  const Value h = op::Relu(b_, op::Conv2D(b_, x, w1));
  const Value loss = op::ReduceSum(b_, op::Square(b_, op::Relu(b_, op::Conv2D(b_, h, w2))));
  const Value losses[] = {loss};
  const Value weights[] = {w1, w2};
  const std::vector<Gradient> grads = pass::Gradients(b_, losses, weights).value();
  const Value rate = op::Scalar(b_, 1e-4);
  Node* train = op::Group(b_, {op::ApplyGradientDescent(b_, w1, rate, grads[0].dense),
                               op::ApplyGradientDescent(b_, w2, rate, grads[1].dense)});
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  Callable* step = session->Prepare({{x}, {}, {train}}).value();
  const std::vector<Tensor> feeds = {Tensor::Zeros(DType::kFloat32, Shape{4, 14, 14, 32}).value()};
  ASSERT_TRUE(step->Run(feeds, {}, {}).ok());
  const Plan* plan = step->PlanFor(feeds).value();
  // The input, and the second filter for the gradient of its input, where that takes another order.
  EXPECT_LE(plan->stats().reorders, 3) << plan->ToString();
  EXPECT_FALSE(session->variables().Find("w1")->layout.is_plain());
  // Running again with settled variables compiles nothing and reads the same values back.
  const Tensor before = session->variables().Read("w1").value();
  ASSERT_TRUE(step->Run(feeds, {}, {}).ok());
  EXPECT_EQ(session->variables().Read("w1").value().ToDoubles(), before.ToDoubles());
}

TEST_F(PlanTest, InitialisersStillWorkAfterLayoutsAreSettled) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 8, 8, 16}, "x");
  const Value w = op::InitializedVariable(b_, "w", Shape{3, 3, 16, 16}, op::HeNormal());
  const Value y = op::ReduceSum(b_, op::Conv2D(b_, x, w));
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const Tensor initial = session->variables().Read("w").value();
  const Tensor ones =
      Tensor::From<float>(Shape{1, 8, 8, 16}, std::vector<float>(1024, 1.0F)).value();
  const float first = session->Run({{x, ones}}, {y}).value()[0].values<float>()[0];
  // The plan of the initialisers was made for the plain layout and is stale now.
  ASSERT_TRUE(session->Initialize().ok());
  EXPECT_EQ(session->variables().Read("w").value().ToDoubles(), initial.ToDoubles());
  EXPECT_EQ(session->Run({{x, ones}}, {y}).value()[0].values<float>()[0], first);
}

TEST_F(PlanTest, Float64RunsByTheReference) {
  const Value x = op::Placeholder(b_, DType::kFloat64, Shape{-1}, "x");
  const Value y = op::Exp(b_, x);
  const auto session = NewSession();
  const Tensor in = Tensor::From<double>(Shape{2}, {0.0, 1.0}).value();
  const Tensor out = session->Run({{x, in}}, {y}).value()[0];
  EXPECT_EQ(out.values<double>()[0], 1.0);
  EXPECT_NEAR(out.values<double>()[1], 2.718281828459045, 1e-15);
}

TEST_F(PlanTest, BFloat16RoundsEveryResult) {
  const Value x = op::Placeholder(b_, DType::kBFloat16, Shape{-1}, "x");
  const Value y = op::Cast(b_, op::Mul(b_, x, x), DType::kFloat32);
  const auto session = NewSession();
  const Tensor in =
      Tensor::From<BFloat16>(Shape{2}, {BFloat16::FromFloat(1.0078125F), BFloat16::FromFloat(3)})
          .value();
  const Tensor out = session->Run({{x, in}}, {y}).value()[0];
  // 1.0078125^2 = 1.01568...: the nearest bfloat16 is 1.015625.
  EXPECT_EQ(out.values<float>()[0], 1.015625F);
  EXPECT_EQ(out.values<float>()[1], 9.0F);
}

TEST_F(PlanTest, AnErrorInAStepNamesItsNode) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
  const Value v = op::InitializedVariable(b_, "v", Shape{2}, op::Zeros());
  const Value m = op::InitializedVariable(b_, "m", Shape{2}, op::Zeros());
  const Value s = op::InitializedVariable(b_, "s", Shape{2}, op::Zeros());
  // Adam counts its steps from 1.
  const Value update = op::ApplyAdam(b_, v, m, s, op::Scalar(b_, 0.0), op::Scalar(b_, 0.1), x);
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const Tensor in = Tensor::From<float>(Shape{2}, {1, 2}).value();
  const Status status = session->Run({{x, in}}, {}, {update.node}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.ToString(), HasSubstr("op ApplyAdam 'ApplyAdam'"));
}

TEST_F(PlanTest, ProfilesEveryKernel) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1}, "x");
  const Value y = op::ReduceSum(b_, op::Exp(b_, x));
  const auto session = NewSession();
  Callable* callable = session->Prepare({{x}, {y}, {}}).value();
  const std::vector<Tensor> feeds = {Tensor::Zeros(DType::kFloat32, Shape{8}).value()};
  std::vector<Tensor> fetches(1);
  StepProfile profile;
  ASSERT_TRUE(callable->Run(feeds, fetches, {}, &profile).ok());
  ASSERT_TRUE(callable->Run(feeds, fetches, {}, &profile).ok());
  ASSERT_EQ(profile.entries.size(), 3U);
  EXPECT_EQ(profile.entries[0].kind, "Exp");
  EXPECT_EQ(profile.entries[2].kind, "Fetch");
  EXPECT_EQ(profile.entries[0].calls, 2);
}

}  // namespace
}  // namespace lockstep::exec
