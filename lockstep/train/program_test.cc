#include "lockstep/train/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/exec/session.h"
#include "lockstep/op/reshape.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Vector = std::vector<double>;

ProgramOptions Options(const Shape& sample, int64_t classes, std::string optimizer = "sgd") {
  ProgramOptions options;
  options.sample_shape = sample;
  options.num_classes = classes;
  options.optimizer.name = std::move(optimizer);
  return options;
}

Program Build(const model::ModelFn& model, const ProgramOptions& options) {
  Result<Program> program = BuildProgram(model, options);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? std::move(program).value() : Program();
}

std::string Error(const model::ModelFn& model, const ProgramOptions& options) {
  const Status status = BuildProgram(model, options).status();
  EXPECT_FALSE(status.ok());
  return status.ToString();
}

model::ModelFn DenseOf(int64_t units) {
  return [units](const model::ModelContext& ctx, Value x) {
    return model::Dense(ctx, "logits", x, {.units = units});
  };
}

Value Normalised(const model::ModelContext& ctx, Value x) {
  x = model::Dense(ctx, "hidden", x, {.units = 6, .bias = false});
  x = model::BatchNormalization(ctx, "norm", x);
  return model::Dense(ctx, "logits", x, {.units = 3});
}

Tensor Floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::From<float>(shape, values).value();
}

TEST(ProgramTest, PartialsAndSumsArePairs) {
  const Program program = Build(Normalised, Options(Shape{4}, 3));
  const TrainGraph& train = program.train;
  ASSERT_EQ(train.partials.size(), train.sums.size());
  // The gradients of two kernels, a bias, a scale and an offset, two running statistics, the loss
  // and the number of right ones.
  EXPECT_EQ(train.sums.size(), 5U + 2U + 2U);
  for (size_t i = 0; i < train.sums.size(); ++i) {
    EXPECT_EQ(train.sums[i].node->op->name, "CrossReplicaSum");
    EXPECT_EQ(train.sums[i].node->inputs[0], train.partials[i]);
    EXPECT_EQ(train.sums[i].type(), train.partials[i].type());
  }
  EXPECT_NE(std::find(train.sums.begin(), train.sums.end(), train.loss), train.sums.end());
  EXPECT_NE(std::find(train.sums.begin(), train.sums.end(), train.correct), train.sums.end());
}

TEST(ProgramTest, TellsVariablesOfTheModelFromSlots) {
  const Program program = Build(Normalised, Options(Shape{4}, 3, "adam"));
  EXPECT_THAT(program.model_variables,
              ElementsAre("hidden/kernel", "logits/bias", "logits/kernel", "norm/moving_mean",
                          "norm/moving_variance", "norm/offset", "norm/scale"));
  EXPECT_THAT(program.slot_variables,
              ElementsAre("hidden/kernel/adam_m", "hidden/kernel/adam_v", "logits/bias/adam_m",
                          "logits/bias/adam_v", "logits/kernel/adam_m", "logits/kernel/adam_v",
                          "norm/offset/adam_m", "norm/offset/adam_v", "norm/scale/adam_m",
                          "norm/scale/adam_v"));
  EXPECT_THAT(Build(Normalised, Options(Shape{4}, 3)).slot_variables, IsEmpty());
}

// Softmax regression of two of four samples: x W = 0, so that every class has the share 1/3.
TEST(ProgramTest, AReplicaComputesItsPartOfTheMeanAndItsGradient) {
  const Program program = Build(DenseOf(3), Options(Shape{2}, 3));
  const TrainGraph& train = program.train;
  const auto session = exec::Session::Create(*train.graph, {}).value();
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(
      session->variables().Write("logits/kernel", Floats(Shape{2, 3}, {0, 0, 0, 0, 0, 0})).ok());
  const exec::Session::FeedList feeds = {
      {train.features, Floats(Shape{2, 2}, {1, 2, 3, -1})},
      {train.labels, Tensor::From<int32_t>(Shape{2}, {0, 2}).value()},
      {train.global_count, Tensor::Scalar(4.0F).value()},
      {train.learning_rate, Tensor::Scalar(3.0F).value()},
      {train.step, Tensor::Scalar(1.0F).value()}};
  const std::vector<Tensor> out =
      session->Run(feeds, {train.loss, train.correct}, {train.train_op}).value();
  EXPECT_NEAR(out[0].ToDoubles()[0], 2 * std::log(3.0) / 4, 1e-6);
  // Of equal classes the first is the best.
  EXPECT_EQ(out[1].ToDoubles()[0], 1);
  // W -= 3 * x^T (p - y) / 4, with p - y = (-2, 1, 1) / 3 and (1, 1, -2) / 3.
  const Vector x0 = {1, 2};
  const Vector x1 = {3, -1};
  const Vector d0 = {-2, 1, 1};
  const Vector d1 = {1, 1, -2};
  const Vector kernel = session->variables().Read("logits/kernel").value().ToDoubles();
  const Vector bias = session->variables().Read("logits/bias").value().ToDoubles();
  for (size_t k = 0; k < 3; ++k) {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(kernel[3 * i + k], -(x0[i] * d0[k] + x1[i] * d1[k]) / 4, 1e-6);
    }
    EXPECT_NEAR(bias[k], -(d0[k] + d1[k]) / 4, 1e-6);
  }
}

TEST(ProgramTest, OptionsReachTheLossAndTheGradient) {
  ProgramOptions options = Options(Shape{2}, 2);
  options.label_smoothing = 0.5;
  options.clip.value = 0.125;
  const Program program = Build(DenseOf(2), options);
  const TrainGraph& train = program.train;
  const auto session = exec::Session::Create(*train.graph, {}).value();
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(session->variables().Write("logits/kernel", Floats(Shape{2, 2}, {1, 0, 0, 0})).ok());
  const exec::Session::FeedList feeds = {
      {train.features, Floats(Shape{1, 2}, {2, 8})},
      {train.labels, Tensor::From<int32_t>(Shape{1}, {0}).value()},
      {train.global_count, Tensor::Scalar(1.0F).value()},
      {train.learning_rate, Tensor::Scalar(1.0F).value()},
      {train.step, Tensor::Scalar(1.0F).value()}};
  const std::vector<Tensor> out = session->Run(feeds, {train.loss}, {train.train_op}).value();
  // The logits are 2 and 0, the targets 3/4 and 1/4.
  const double log_sum = std::log(std::exp(2.0) + 1);
  EXPECT_NEAR(out[0].ToDoubles()[0], 0.75 * (log_sum - 2) + 0.25 * log_sum, 1e-6);
  // p - y is 0.13 for the first class: both of its gradients are above the bound.
  EXPECT_THAT(session->variables().Read("logits/bias").value().ToDoubles(),
              ElementsAre(-0.125, 0.125));
}

TEST(ProgramTest, AnOutputThatDoesNotFitTheClassesIsAnErrorThatSaysWhatWasFound) {
  EXPECT_THAT(Error(DenseOf(4), Options(Shape{2}, 3)),
              HasSubstr("the model's output is float32 [?, 4], expected float32 [?, 3]"));
  const auto image = [](const model::ModelContext&, Value x) { return x; };
  EXPECT_THAT(Error(image, Options(Shape{5, 3}, 3)),
              HasSubstr("the model's output is float32 [?, 5, 3]"));
  const auto nothing = [](const model::ModelContext&, Value) { return Value(); };
  EXPECT_THAT(Error(nothing, Options(Shape{2}, 3)), HasSubstr("the model's output is nothing"));
}

TEST(ProgramTest, ErrorsOfTheModelComeThrough) {
  const auto broken = [](const model::ModelContext& ctx, Value x) {
    return model::Conv(ctx, "conv", x, {.filters = 2});
  };
  EXPECT_THAT(Error(broken, Options(Shape{4}, 3)), HasSubstr("Conv2D"));
}

TEST(ProgramTest, OneClassIsNoClassifier) {
  EXPECT_THAT(Error(DenseOf(1), Options(Shape{2}, 1)), HasSubstr("2 classes or more, found 1"));
  EXPECT_THAT(Error(DenseOf(1), Options(Shape{2}, 0)), HasSubstr("found 0"));
}

TEST(ProgramTest, AModelWithoutTrainableVariablesIsAnError) {
  const auto flatten = [](const model::ModelContext& ctx, Value x) {
    return op::Flatten(ctx.builder, x);
  };
  EXPECT_THAT(Error(flatten, Options(Shape{3, 1}, 3)), HasSubstr("no trainable variable"));
}

TEST(ProgramTest, AnUnknownOptimizerIsAnError) {
  EXPECT_THAT(Error(DenseOf(3), Options(Shape{2}, 3, "adm")), HasSubstr("no optimizer 'adm'"));
}

// It would be evaluated with variables that nobody trained.
TEST(ProgramTest, OtherVariablesInEvaluationAreAnErrorThatNamesThem) {
  const auto two_faced = [](const model::ModelContext& ctx, Value x) {
    return model::Dense(ctx, ctx.training ? "a" : "b", x, {.units = 3});
  };
  EXPECT_THAT(Error(two_faced, Options(Shape{2}, 3)),
              HasSubstr("in evaluation the model has the variable 'b/bias'"));
}

// One step of the same batch from the same initial values.
TEST(ProgramTest, Bfloat16ChangesTheRoundingOnly) {
  Vector losses;
  std::vector<Vector> kernels;
  for (const bool bf16 : {false, true}) {
    ProgramOptions options = Options(Shape{28, 28, 1}, 10, "momentum");
    options.bf16 = bf16;
    const Program program = Build(model::MakeModel("lenet5", {}).value(), options);
    const TrainGraph& train = program.train;
    for (const Value& variable : train.graph->Collection(collection::kVariables)) {
      EXPECT_EQ(variable.dtype(), DType::kFloat32) << variable.name();
    }
    const auto session = exec::Session::Create(*train.graph, {}).value();
    ASSERT_TRUE(session->Initialize().ok());
    std::vector<float> images(2 * 784);
    for (size_t i = 0; i < images.size(); ++i) {
      images[i] = std::sin(static_cast<float>(i));
    }
    const Result<std::vector<Tensor>> out =
        session->Run({{train.features, Floats(Shape{2, 28, 28, 1}, images)},
                      {train.labels, Tensor::From<int32_t>(Shape{2}, {0, 2}).value()},
                      {train.global_count, Tensor::Scalar(2.0F).value()},
                      {train.learning_rate, Tensor::Scalar(0.1F).value()},
                      {train.step, Tensor::Scalar(1.0F).value()}},
                     {train.loss}, {train.train_op});
    ASSERT_TRUE(out.ok()) << out.status().ToString();
    losses.push_back((*out)[0].ToDoubles()[0]);
    kernels.push_back(session->variables().Read("logits/kernel").value().ToDoubles());
  }
  // bfloat16 has 8 significant bits.
  EXPECT_NEAR(losses[1], losses[0], 0.02 * losses[0]);
  EXPECT_NE(kernels[1], kernels[0]);
  for (size_t i = 0; i < kernels[0].size(); ++i) {
    EXPECT_NEAR(kernels[1][i], kernels[0][i], 0.02);
  }
}

}  // namespace
}  // namespace lockstep::train
