// Whole training steps: a session, with its passes, layouts and kernels, against the same graph run
// node by node with float64 references.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/exec/session.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/batch_norm.h"
#include "lockstep/op/bias_add.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/group.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/pool.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reshape.h"
#include "lockstep/op/sparse_softmax_cross_entropy.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/testing/parity.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::exec {
namespace {

using op::testing::ArrayDifference;
using op::testing::DoubleTensor;
using op::testing::Interpreter;
using op::testing::MakeInput;
using op::testing::ToDoubleTensor;
using ::testing::HasSubstr;

// Convolution, batch norm, relu, pooling, convolution with bias and relu, a dense layer and the
// cross entropy; momentum on all weights, moving averages of the statistics.
class TrainingStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    images_ = op::Placeholder(b_, DType::kFloat32, Shape{-1, 8, 8, 3}, "images");
    labels_ = op::Placeholder(b_, DType::kInt32, Shape{-1}, "labels");
    const Value first = op::Conv2D(b_, images_, Weights("conv1", {3, 3, 3, 16}, 0.3));
    const op::BatchNormResult norm =
        op::BatchNorm(b_, first, Weights("scale", {16}, 1.5), Weights("offset", {16}, 0.2));
    MovingAverage("moving_mean", norm.mean);
    MovingAverage("moving_variance", norm.variance);
    const Value pooled = op::MaxPool(b_, op::Relu(b_, norm.y));
    const Value second = op::Conv2D(b_, pooled, Weights("conv2", {3, 3, 16, 16}, 0.1));
    const Value hidden = op::Relu(b_, op::BiasAdd(b_, second, Weights("bias2", {16}, 0.1)));
    const Value logits =
        op::BiasAdd(b_, op::MatMul(b_, op::Flatten(b_, hidden), Weights("dense", {256, 10}, 0.05)),
                    Weights("bias3", {10}, 0.1));
    loss_ = op::ReduceMean(b_, op::SparseSoftmaxCrossEntropyWithLogits(b_, logits, labels_).loss);
    AddUpdates();
  }

  Value Weights(std::string_view name, const Shape& shape, double most) {
    const int index = static_cast<int>(weights_.size());
    const Tensor initial = MakeInput({.shape = shape, .low = -most, .high = most}, index).value();
    weights_.push_back(op::Variable(b_, name, op::Const(b_, initial)));
    return weights_.back();
  }

  void MovingAverage(std::string_view name, Value of) {
    const Value average = op::Variable(b_, name, op::Const(b_, Zeros(of.shape())), false);
    const Value change = op::Mul(b_, op::Sub(b_, average, of), op::Scalar(b_, 0.1));
    updates_.push_back(op::AssignSub(b_, average, change));
    state_.push_back(average);
  }

  void AddUpdates() {
    const Value ys[] = {loss_};
    const std::vector<Gradient> gradients = pass::Gradients(b_, ys, weights_).value();
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Value slot = op::Variable(b_, weights_[i].node->name + "/momentum",
                                      op::Const(b_, Zeros(weights_[i].shape())), false);
      updates_.push_back(op::ApplyMomentum(b_, weights_[i], slot, op::Scalar(b_, 0.05),
                                           gradients[i].dense,
                                           {.momentum = 0.9, .gradient = {.l2 = 1e-3}}));
      state_.push_back(weights_[i]);
      state_.push_back(slot);
    }
    train_ = op::Group(b_, updates_);
    init_ = op::Group(b_, std::vector<Value>(graph_.Collection(collection::kInitializers).begin(),
                                             graph_.Collection(collection::kInitializers).end()));
    ASSERT_TRUE(b_.status().ok()) << b_.status().ToString();
  }

  static Tensor Zeros(const Shape& shape) { return Tensor::Zeros(DType::kFloat32, shape).value(); }

  static Tensor Images(int step) { return MakeInput({.shape = {6, 8, 8, 3}}, 100 + step).value(); }

  static Tensor Labels(int step) {
    std::vector<int32_t> labels;
    for (int i = 0; i < 6; ++i) {
      labels.push_back((i * 7 + step * 3) % 10);
    }
    return Tensor::From<int32_t>(Shape{6}, labels).value();
  }

  static constexpr int kSteps = 3;

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
  Value images_, labels_, loss_;
  std::vector<Value> weights_;
  std::vector<Value> updates_;
  std::vector<Value> state_;
  Node* train_ = nullptr;
  Node* init_ = nullptr;
};

TEST_F(TrainingStepTest, TheSameAsNodeByNode) {
  const auto session = Session::Create(graph_, {}).value();
  Interpreter interpreter(Interpreter::Mode::kReferences);
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(interpreter.Run(graph_, *init_).ok());
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Tensor> losses =
        session->Run({{images_, Images(step)}, {labels_, Labels(step)}}, {loss_}, {train_}).value();
    interpreter.Feed(images_, ToDoubleTensor(Images(step)));
    interpreter.Feed(labels_, ToDoubleTensor(Labels(step)));
    const DoubleTensor loss = interpreter.Evaluate(graph_, loss_).value();
    EXPECT_EQ(ArrayDifference("loss", ToDoubleTensor(losses[0]), loss, 1e-4), "") << step;
    const Status ran = interpreter.Run(graph_, *train_);
    ASSERT_TRUE(ran.ok()) << ran.ToString();
  }
  for (const Value& variable : state_) {
    const Tensor got = session->variables().Read(variable.node->name).value();
    const DoubleTensor expected = interpreter.Evaluate(graph_, variable).value();
    EXPECT_EQ(ArrayDifference(variable.node->name, ToDoubleTensor(got), expected, 1e-4), "");
  }
}

// Whether the test above covers what it is meant to.
TEST_F(TrainingStepTest, TheStepIsFused) {
  const auto session = Session::Create(graph_, {}).value();
  ASSERT_TRUE(session->Initialize().ok());
  Callable* callable = session->Prepare({{images_, labels_}, {loss_}, {train_}}).value();
  const std::vector<Tensor> feeds = {Images(0), Labels(0)};
  const std::string plan = callable->PlanFor(feeds).value()->ToString();
  EXPECT_THAT(plan, HasSubstr("FusedBatchNormRelu "));
  EXPECT_THAT(plan, HasSubstr("FusedBatchNormReluGrad "));
  EXPECT_THAT(plan, HasSubstr("FusedConv2D "));
  EXPECT_THAT(plan, HasSubstr("FusedMatMul "));
}

// The same bits from two devices, from one plan again, and with other sessions in between.
TEST_F(TrainingStepTest, StepsAreDeterministic) {
  std::vector<std::vector<double>> first;
  for (int run = 0; run < 2; ++run) {
    const auto session = Session::Create(graph_, {.devices = 2}).value();
    ASSERT_TRUE(session->Initialize().ok());
    Callable* callable = session->Prepare({{images_, labels_}, {loss_}, {train_}}, run).value();
    std::vector<Tensor> fetches(1);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<Tensor> feeds = {Images(step), Labels(step)};
      ASSERT_TRUE(callable->Run(feeds, fetches, {.step = step}).ok());
    }
    for (size_t i = 0; i < state_.size(); ++i) {
      const Tensor value = session->variables().Read(state_[i].node->name).value();
      if (run == 0) {
        first.push_back(value.ToDoubles());
      } else {
        EXPECT_EQ(value.ToDoubles(), first[i]) << state_[i].node->name;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::exec
