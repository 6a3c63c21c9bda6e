#include <gmock/gmock.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/batch_norm.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/group.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/testing/fusion_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class FuseBatchNormTest : public FusionFixture {
 protected:
  void SetUp() override {
    x_ = Input({3, 4, 5, 6});
    scale_ = Input({6}, "scale");
    offset_ = Input({6}, "offset");
    norm_ = op::BatchNorm(b_, x_, scale_, offset_);
  }

  SpecializedGraph Fused(const std::vector<Value>& fetches,
                         const std::vector<Node*>& targets = {}) {
    SpecializedGraph fused = FuseBatchNorm(Specialized(fetches, targets)).value();
    ExpectSameNumbers(fused, fetches, 1e-4);
    return fused;
  }

  Value x_;
  Value scale_;
  Value offset_;
  op::BatchNormResult norm_;
};

TEST_F(FuseBatchNormTest, WithRelu) {
  const Value y = op::Relu(b_, norm_.y);
  EXPECT_THAT(Ops(Fused({y})), ElementsAre("FusedBatchNormRelu"));
}

TEST_F(FuseBatchNormTest, StatisticsMayBeRead) {
  const Value y = op::Relu(b_, norm_.y);
  const Value spread = op::Sub(b_, norm_.variance, norm_.mean);
  EXPECT_THAT(Ops(Fused({norm_.mean, y, spread})), ElementsAre("FusedBatchNormRelu", "Sub"));
}

TEST_F(FuseBatchNormTest, WithReluAndGradients) {
  const Value y = op::Relu(b_, norm_.y);
  const Value loss = op::ReduceSum(b_, op::Mul(b_, y, Input({3, 4, 5, 6}, "weights")));
  const std::vector<Value> fetches = {loss, Grad(loss, x_), Grad(loss, scale_),
                                      Grad(loss, offset_)};
  const std::vector<std::string> ops = Ops(Fused(fetches));
  EXPECT_THAT(ops, Contains("FusedBatchNormRelu"));
  EXPECT_THAT(ops, Contains("FusedBatchNormReluGrad"));
  EXPECT_THAT(ops, Not(Contains("BatchNormGrad")));
  EXPECT_THAT(ops, Not(Contains("ReluGrad")));
}

TEST_F(FuseBatchNormTest, OtherActivationsStay) {
  EXPECT_THAT(Ops(Fused({op::Tanh(b_, norm_.y)})), ElementsAre("BatchNorm", "Tanh"));
}

TEST_F(FuseBatchNormTest, AFetchedResultStays) {
  EXPECT_THAT(Ops(Fused({norm_.y, op::Relu(b_, norm_.y)})), ElementsAre("BatchNorm", "Relu"));
}

TEST_F(FuseBatchNormTest, ASecondReaderStopsFusion) {
  EXPECT_THAT(Ops(Fused({op::Tanh(b_, norm_.y), op::Relu(b_, norm_.y)})),
              ElementsAre("BatchNorm", "Relu", "Tanh"));
}

TEST_F(FuseBatchNormTest, ControlEdgesIntoTheReluStopFusion) {
  Value y;
  {
    const ControlScope controls(b_, {op::Tanh(b_, norm_.mean)});
    y = op::Relu(b_, norm_.y);
  }
  EXPECT_THAT(Ops(Fused({y})), ElementsAre("BatchNorm", "Relu", "Tanh"));
}

// Whoever waits for the relu, and whoever names it as a target, finds the fused node.
TEST_F(FuseBatchNormTest, TheReluMayBeWaitedFor) {
  const Value y = op::Relu(b_, norm_.y);
  Node* group = op::Group(b_, std::vector<Value>{y});
  const SpecializedGraph fused = Fused({norm_.mean}, {group, y.node});
  ASSERT_THAT(Ops(fused), ElementsAre("FusedBatchNormRelu", "NoOp"));
  ASSERT_EQ(fused.targets.size(), 2U);
  EXPECT_EQ(fused.targets[1]->op->name, "FusedBatchNormRelu");
  EXPECT_THAT(fused.targets[0]->control_inputs, ElementsAre(fused.targets[1]));
}

TEST_F(FuseBatchNormTest, ASharedReluGradientStays) {
  const Value y = op::Relu(b_, norm_.y);
  const Value loss = op::ReduceSum(b_, op::Mul(b_, y, y));
  const Value by_norm = Grad(loss, norm_.y);
  const Value by_x = Grad(by_norm, x_).valid() ? Grad(loss, x_) : Value{};
  ASSERT_TRUE(by_x.valid());
  // The gradient at the norm's output is fetched, so that it has to exist.
  const Value relu_grad = by_x.node->inputs[0];
  ASSERT_EQ(relu_grad.node->op->name, "ReluGrad");
  EXPECT_THAT(Ops(Fused({by_x, relu_grad})), Contains("BatchNormGrad"));
}

// The fused gradient would read the offset once more, after its update.
TEST_F(FuseBatchNormTest, AGradientBehindAWriteOfTheOffsetStays) {
  const Value offset = op::Variable(b_, "offset_variable", offset_);
  const op::BatchNormResult norm = op::BatchNorm(b_, x_, scale_, offset);
  const Value y = op::Relu(b_, norm.y);
  const Value moved = op::AssignAdd(b_, offset, scale_);
  const Value loss = op::ReduceSum(b_, op::Mul(b_, y, moved));
  const SpecializedGraph fused = FuseBatchNorm(Specialized({Grad(loss, x_)})).value();
  EXPECT_THAT(Ops(fused), Contains("BatchNormGrad"));
}

}  // namespace
}  // namespace lockstep::pass
