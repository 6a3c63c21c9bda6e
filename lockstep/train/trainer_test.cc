#include "lockstep/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/data/synthetic.h"
#include "lockstep/op/binary.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kClasses = 7;

// One replica in one session: the least that can run a program.
class OneReplica : public StepRunner {
 public:
  explicit OneReplica(const Program& program) : program_(program) {
    session_ = exec::Session::Create(*program.train.graph, {.seed = 5}, store_).value();
  }

  std::string_view name() const override { return "one_replica"; }

  int num_devices() const override { return 1; }

  const std::shared_ptr<exec::VariableStore>& shared_variables() const override { return store_; }

  Status Initialize() override {
    ++initialized;
    return session_->Initialize();
  }

  Result<StepResult> RunStep(const StepRequest& request) override {
    if (request.global_step == fail_at) {
      return Internal("no current");
    }
    rates.push_back(request.learning_rate);
    const TrainGraph& train = program_.train;
    const int64_t samples = request.batcher.step_samples(request.batch_step);
    Shape shape = train.features.shape();
    shape.set_dim(0, samples);
    LS_ASSIGN_OR_RETURN(const Tensor features, Tensor::Allocate(DType::kFloat32, shape));
    LS_ASSIGN_OR_RETURN(const Tensor labels, Tensor::Allocate(DType::kInt32, Shape{samples}));
    LS_TRY(request.batcher
               .Fill(request.batch_step, 0, features.values<float>(), labels.values<int32_t>())
               .status());
    const auto scalar = [](double value) {
      return Tensor::Scalar(static_cast<float>(value)).value();
    };
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                        session_->Run({{train.features, features},
                                       {train.labels, labels},
                                       {train.global_count, scalar(static_cast<double>(samples))},
                                       {train.learning_rate, scalar(request.learning_rate)},
                                       {train.step, scalar(request.global_step + 1.0)}},
                                      {train.loss, train.correct}, {train.train_op}));
    return StepResult{out[0].values<float>()[0], std::lround(out[1].values<float>()[0]), samples};
  }

  int initialized = 0;
  int64_t fail_at = -1;
  std::vector<float> rates;

 private:
  const Program& program_;
  std::shared_ptr<exec::VariableStore> store_ = std::make_shared<exec::VariableStore>();
  std::unique_ptr<exec::Session> session_;
};

class RecordedProgress : public observe::Progress {
 public:
  void OnStep(const observe::StepReport& report) override { steps.push_back(report); }

  void OnEpochEnd(const observe::EpochReport& report) override { epochs.push_back(report); }

  void OnMessage(std::string_view) override {}

  void OnEnd() override { ++ends; }

  std::vector<observe::StepReport> steps;
  std::vector<observe::EpochReport> epochs;
  int ends = 0;
};

Value Network(const model::ModelContext& ctx, Value x) {
  x = model::Dense(ctx, "hidden", x, {.units = 12, .activation = model::Activation::kTanh});
  return model::Dense(ctx, "logits", x, {.units = kClasses});
}

// 50 training samples in batches of 16: three whole ones and one of 2.
class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_ = data::MakeSynthetic({.sample_shape = Shape{5},
                                    .num_classes = kClasses,
                                    .train_samples = 50,
                                    .test_samples = 37})
                   .value();
    ProgramOptions options;
    options.sample_shape = dataset_.sample_shape;
    options.num_classes = kClasses;
    options.optimizer.name = "momentum";
    Result<Program> program = BuildProgram(Network, options);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    program_ = std::move(program).value();
    options_.global_batch = 16;
    options_.seed = 5;
    options_.optimizer.name = "momentum";
    options_.optimizer.learning_rate = 0.05;
    runner_ = std::make_unique<OneReplica>(program_);
  }

  Result<FitResult> Fit() {
    return Trainer(program_, *runner_, dataset_, options_, progress_).Fit();
  }

  FitResult FitOk() {
    Result<FitResult> fit = Fit();
    EXPECT_TRUE(fit.ok()) << fit.status().ToString();
    return fit.ok() ? *fit : FitResult();
  }

  std::string Error() { return Fit().status().ToString(); }

  Metrics Evaluate(int64_t eval_batch) {
    options_.eval_batch = eval_batch;
    Trainer trainer(program_, *runner_, dataset_, options_, progress_);
    const Result<Metrics> metrics = trainer.Evaluate(dataset_.test);
    EXPECT_TRUE(metrics.ok()) << metrics.status().ToString();
    return metrics.ok() ? *metrics : Metrics();
  }

  std::string Hash(int64_t step) {
    return HashState(*runner_->shared_variables(), program_.model_variables,
                     program_.slot_variables, step)
        .value();
  }

  // A new process: nothing but the variables is left of the old runner.
  void Restart() {
    auto fresh = std::make_unique<OneReplica>(program_);
    for (const exec::Variable* variable : runner_->shared_variables()->All()) {
      const Tensor value = runner_->shared_variables()->Read(variable->name).value();
      exec::VariableStore& store = *fresh->shared_variables();
      ASSERT_TRUE(store.GetOrCreate(variable->name, value.dtype(), value.shape()).ok());
      ASSERT_TRUE(store.Write(variable->name, value).ok());
    }
    runner_ = std::move(fresh);
  }

  data::Dataset dataset_;
  Program program_;
  TrainerOptions options_;
  RecordedProgress progress_;
  std::unique_ptr<OneReplica> runner_;
};

TEST_F(TrainerTest, TheLossGoesDown) {
  options_.epochs = 20;
  const FitResult fit = FitOk();
  ASSERT_EQ(progress_.epochs.size(), 20U);
  EXPECT_LT(progress_.epochs[19].loss, 0.3 * progress_.epochs[0].loss);
  EXPECT_GT(fit.accuracy, progress_.epochs[0].accuracy);
  EXPECT_EQ(runner_->initialized, 1);
}

TEST_F(TrainerTest, CountsStepsEpochsAndSamples) {
  options_.epochs = 2;
  const FitResult fit = FitOk();
  EXPECT_EQ(fit.steps, 8);
  EXPECT_EQ(fit.epochs, 2);
  EXPECT_EQ(fit.samples, 100);
  EXPECT_EQ(fit.step_seconds.size(), 8U);
  EXPECT_FALSE(fit.stopped_early);
  EXPECT_EQ(fit.end.step, 8);
  EXPECT_EQ(fit.end.epoch, 2);
  EXPECT_EQ(fit.end.batch_step, 0);
  EXPECT_GE(fit.seconds, fit.train_seconds);
}

TEST_F(TrainerTest, WhateverComesFirstEndsTheRun) {
  options_.epochs = 2;
  options_.steps = 3;
  EXPECT_EQ(FitOk().steps, 3);
  options_.steps = 100;
  EXPECT_EQ(FitOk().steps, 8);
  options_.epochs = 0;
  options_.steps = 9;
  const FitResult fit = FitOk();
  EXPECT_EQ(fit.steps, 9);
  EXPECT_EQ(fit.epochs, 3);
  EXPECT_EQ(fit.end.batch_step, 1);
}

TEST_F(TrainerTest, MoreEpochsThanCanBeCountedInSteps) {
  options_.epochs = std::numeric_limits<int64_t>::max() / 2;
  options_.steps = 2;
  EXPECT_EQ(FitOk().steps, 2);
}

TEST_F(TrainerTest, ARunWithoutAnEndIsAnError) {
  EXPECT_THAT(Error(), HasSubstr("a run needs a number of epochs or steps"));
  EXPECT_EQ(runner_->initialized, 0);
}

TEST_F(TrainerTest, ADatasetWithoutTrainingSamplesIsAnErrorThatNamesIt) {
  dataset_.train = data::Split();
  options_.steps = 1;
  EXPECT_THAT(Error(), HasSubstr(dataset_.name + " has no training samples"));
}

TEST_F(TrainerTest, ReportsEveryStepAndEpoch) {
  options_.epochs = 2;
  const FitResult fit = FitOk();
  ASSERT_EQ(progress_.steps.size(), 8U);
  const observe::StepReport& last = progress_.steps[7];
  EXPECT_EQ(last.epoch, 1);
  EXPECT_EQ(last.step, 4);
  EXPECT_EQ(last.steps, 4);
  EXPECT_EQ(last.run_step, 8);
  EXPECT_EQ(last.run_steps, 8);
  EXPECT_EQ(last.samples, 2);
  EXPECT_EQ(last.loss, fit.final_loss);
  ASSERT_EQ(progress_.epochs.size(), 2U);
  // Means over samples: the short batch counts for less.
  double loss = 0;
  double correct = 0;
  for (size_t i = 4; i < 8; ++i) {
    const auto samples = static_cast<double>(progress_.steps[i].samples);
    loss += progress_.steps[i].loss * samples;
    correct += progress_.steps[i].accuracy * samples;
  }
  EXPECT_NEAR(progress_.epochs[1].loss, loss / 50, 1e-12);
  EXPECT_NEAR(progress_.epochs[1].accuracy, correct / 50, 1e-12);
  EXPECT_EQ(fit.accuracy, progress_.epochs[1].accuracy);
  EXPECT_EQ(progress_.epochs[1].samples, 50);
  EXPECT_EQ(progress_.epochs[1].test_accuracy, Evaluate(256).accuracy);
  EXPECT_EQ(fit.test.value().accuracy, Evaluate(256).accuracy);
  EXPECT_EQ(progress_.ends, 1);
}

TEST_F(TrainerTest, RunsOfStepsEvaluateAtTheirEndOnly) {
  options_.steps = 4;
  const FitResult fit = FitOk();
  ASSERT_EQ(progress_.epochs.size(), 1U);
  EXPECT_TRUE(std::isnan(progress_.epochs[0].test_accuracy));
  EXPECT_EQ(fit.test.value().accuracy, Evaluate(256).accuracy);
}

TEST_F(TrainerTest, TheScheduleReachesTheStep) {
  options_.steps = 4;
  options_.optimizer.learning_rate = 0.5;
  options_.optimizer.schedule.name = "polynomial";
  options_.optimizer.schedule.warmup_steps = 2;
  FitOk();
  // Two steps up, then linearly to 0 over the two that are left.
  EXPECT_THAT(runner_->rates, ElementsAre(0.25F, 0.5F, 0.5F, 0.25F));
}

// Accuracies are counts and must be equal; losses are sums of float32 in another order.
TEST_F(TrainerTest, EvaluationIsAnExactMeanWhateverTheBatch) {
  options_.epochs = 3;
  FitOk();
  const Metrics whole = Evaluate(256);
  EXPECT_EQ(whole.samples, 37);
  for (const int64_t batch : {1, 7, 36, 37}) {
    const Metrics metrics = Evaluate(batch);
    EXPECT_EQ(metrics.samples, 37);
    EXPECT_EQ(metrics.accuracy, whole.accuracy) << batch;
    EXPECT_EQ(metrics.top5_accuracy, whole.top5_accuracy) << batch;
    EXPECT_NEAR(metrics.loss, whole.loss, 1e-6) << batch;
  }
}

TEST_F(TrainerTest, EvaluationAgreesWithThePredictions) {
  options_.epochs = 3;
  FitOk();
  Trainer trainer(program_, *runner_, dataset_, options_, progress_);
  const Tensor shares = trainer.Predict(dataset_.test.features()).value();
  ASSERT_EQ(shares.shape(), (Shape{37, kClasses}));
  double loss = 0;
  int correct = 0;
  int in_top5 = 0;
  for (int64_t i = 0; i < 37; ++i) {
    const auto row = shares.values<float>().subspan(static_cast<size_t>(i * kClasses), kClasses);
    const auto label = static_cast<size_t>(dataset_.test.labels().values<int32_t>()[i]);
    const auto better =
        std::count_if(row.begin(), row.end(), [&](float share) { return share > row[label]; });
    correct += better == 0 ? 1 : 0;
    in_top5 += better < 5 ? 1 : 0;
    loss -= std::log(static_cast<double>(row[label]));
    double sum = 0;
    for (const float share : row) {
      sum += static_cast<double>(share);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  const Metrics metrics = Evaluate(10);
  EXPECT_EQ(metrics.accuracy, correct / 37.0);
  EXPECT_EQ(metrics.top5_accuracy, in_top5 / 37.0);
  EXPECT_NEAR(metrics.loss, loss / 37, 1e-5);
  // It would prove little if all or none were right.
  EXPECT_GT(correct, 0);
  EXPECT_LT(correct, 37);
}

TEST_F(TrainerTest, NoSamplesHaveNoMean) {
  options_.steps = 1;
  FitOk();
  Trainer trainer(program_, *runner_, dataset_, options_, progress_);
  const Metrics metrics = trainer.Evaluate(data::Split()).value();
  EXPECT_EQ(metrics.samples, 0);
  EXPECT_TRUE(std::isnan(metrics.loss));
  EXPECT_TRUE(std::isnan(metrics.accuracy));
}

TEST_F(TrainerTest, PredictChecksItsInput) {
  options_.steps = 1;
  FitOk();
  Trainer trainer(program_, *runner_, dataset_, options_, progress_);
  const Tensor wide = Tensor::Zeros(DType::kFloat32, Shape{2, 6}).value();
  EXPECT_THAT(trainer.Predict(wide).status().ToString(), HasSubstr("features"));
  const Tensor none = Tensor::Zeros(DType::kFloat32, Shape{0, 5}).value();
  EXPECT_EQ(trainer.Predict(none).value().shape(), (Shape{0, kClasses}));
}

TEST_F(TrainerTest, EvaluationOfUntrainedVariablesIsAnError) {
  Trainer trainer(program_, *runner_, dataset_, options_, progress_);
  EXPECT_FALSE(trainer.Evaluate(dataset_.test).ok());
}

TEST_F(TrainerTest, StopsBetweenSteps) {
  options_.epochs = 3;
  options_.should_stop = [](int64_t steps) { return steps == 6; };
  const FitResult fit = FitOk();
  EXPECT_TRUE(fit.stopped_early);
  EXPECT_EQ(fit.steps, 6);
  EXPECT_EQ(fit.end.epoch, 1);
  EXPECT_EQ(fit.end.batch_step, 2);
  // Of the two batches of 16 that the epoch got to.
  EXPECT_NEAR(fit.accuracy, (progress_.steps[4].accuracy + progress_.steps[5].accuracy) / 2, 1e-12);
  EXPECT_EQ(progress_.epochs.size(), 1U);
}

TEST_F(TrainerTest, AStopAtTheEndLeavesOutTheEvaluation) {
  options_.steps = 3;
  options_.should_stop = [](int64_t steps) { return steps == 3; };
  const FitResult fit = FitOk();
  EXPECT_EQ(fit.steps, 3);
  EXPECT_TRUE(fit.stopped_early);
  EXPECT_FALSE(fit.test.has_value());
}

TEST_F(TrainerTest, AStopBeforeTheFirstStepIsSeenBeforeIt) {
  options_.steps = 3;
  options_.should_stop = [](int64_t) { return true; };
  const FitResult fit = FitOk();
  EXPECT_EQ(fit.steps, 0);
  EXPECT_TRUE(fit.stopped_early);
  EXPECT_EQ(fit.end.step, 0);
}

TEST_F(TrainerTest, AnEvaluationStopsBetweenItsBatches) {
  options_.steps = 1;
  FitOk();
  options_.eval_batch = 1;
  int asked = 0;
  options_.should_stop = [&asked](int64_t) { return ++asked == 3; };
  Trainer trainer(program_, *runner_, dataset_, options_, progress_);
  EXPECT_EQ(trainer.Evaluate(dataset_.test).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

TEST_F(TrainerTest, GoingOnGivesTheSameBitsAsNoInterruption) {
  options_.steps = 11;
  FitOk();
  const std::string uninterrupted = Hash(11);
  // Step 4 and 8 are ends of epochs.
  for (const int64_t cut : {1, 4, 6, 8, 10}) {
    runner_ = std::make_unique<OneReplica>(program_);
    options_.start.reset();
    options_.should_stop = [cut](int64_t steps) { return steps == cut; };
    const FitResult first = FitOk();
    ASSERT_EQ(first.end.step, cut);
    EXPECT_NE(Hash(11), uninterrupted);
    Restart();
    options_.start = first.end;
    options_.should_stop = nullptr;
    const FitResult rest = FitOk();
    EXPECT_EQ(rest.steps, 11 - cut);
    EXPECT_EQ(rest.end.step, 11);
    EXPECT_EQ(runner_->initialized, 0);
    EXPECT_EQ(Hash(11), uninterrupted) << "cut after step " << cut;
  }
}

TEST_F(TrainerTest, GoingOnBehindTheEndDoesNothing) {
  options_.steps = 5;
  options_.start = FitOk().end;
  const std::string before = Hash(5);
  const FitResult fit = FitOk();
  EXPECT_EQ(fit.steps, 0);
  EXPECT_EQ(fit.end.step, 5);
  EXPECT_EQ(Hash(5), before);
}

TEST_F(TrainerTest, APositionThatTheDataDoesNotHaveIsAnError) {
  options_.steps = 100;
  const auto error = [&](TrainPosition position) {
    options_.start = position;
    return Error();
  };
  EXPECT_THAT(error({5, 0, 5}), HasSubstr("at batch 5 of epoch 0"));
  EXPECT_THAT(error({5, 0, 5}), HasSubstr("has 4 batches an epoch"));
  // The end of an epoch of other data.
  EXPECT_THAT(error({7, 1, 0}), HasSubstr("has changed"));
  EXPECT_THAT(error({4, 2, 0}), HasSubstr("has changed"));
  EXPECT_THAT(error({-4, -1, 0}), HasSubstr("has changed"));
  EXPECT_THAT(error({3, 0, -1}), HasSubstr("has changed"));
  EXPECT_THAT(runner_->rates, ::testing::IsEmpty());
}

TEST_F(TrainerTest, ALossThatIsNotFiniteIsAnErrorThatNamesTheStep) {
  options_.steps = 10;
  options_.optimizer.learning_rate = 1e38;
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("in step "));
  EXPECT_THAT(error, HasSubstr("the learning rate 1e+38 may be too high; lower "
                               "optimizer.learning_rate, or bound the gradients with "
                               "train.clip_global_norm"));
  EXPECT_LT(progress_.steps.size(), 10U);
  EXPECT_EQ(progress_.ends, 1);
}

// No rate is to blame before the first update.
TEST_F(TrainerTest, ALossThatIsNotFiniteFromTheStartIsNotTheLearningRates) {
  std::vector<float> features(50 * 5, 1e38F);
  std::vector<int32_t> labels(50);
  dataset_.train = data::Split::Create("s", Tensor::From<float>(Shape{50, 5}, features).value(),
                                       Tensor::From<int32_t>(Shape{50}, labels).value(), kClasses)
                       .value();
  ProgramOptions options;
  options.sample_shape = Shape{5};
  options.num_classes = kClasses;
  runner_.reset();
  program_ =
      BuildProgram(
          [](const model::ModelContext& ctx, Value x) {
            return model::Dense(ctx, "logits", op::Mul(ctx.builder, x, x), {.units = kClasses});
          },
          options)
          .value();
  runner_ = std::make_unique<OneReplica>(program_);
  options_.steps = 10;
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("in step 0, before the first update: the data or the model's "
                               "initial values"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("learning rate")));
}

// The last step has no successor whose loss would show what it has done.
TEST_F(TrainerTest, ALossOfTheTestDataThatIsNotFiniteIsAnError) {
  options_.steps = 1;
  options_.optimizer.learning_rate = 3e38;
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("on the test data after 1 step: the learning rate 3e+38 may be"));
  EXPECT_EQ(progress_.steps.size(), 1U);
}

TEST(PlannedStepsTest, WhateverEndsFirst) {
  EXPECT_EQ(PlannedSteps(3, 0, 7).value(), 21);
  EXPECT_EQ(PlannedSteps(0, 20, 7).value(), 20);
  EXPECT_EQ(PlannedSteps(3, 20, 7).value(), 20);
  EXPECT_EQ(PlannedSteps(3, 22, 7).value(), 21);
  EXPECT_EQ(PlannedSteps(INT64_MAX, 5, 7).value(), 5);
  EXPECT_FALSE(PlannedSteps(0, 0, 7).ok());
}

TEST_F(TrainerTest, AnErrorOfTheStrategyNamesTheStep) {
  options_.steps = 10;
  runner_->fail_at = 7;
  const Status status = Fit().status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.ToString(), HasSubstr("no current"));
  EXPECT_THAT(status.ToString(), HasSubstr("step 7"));
  EXPECT_EQ(progress_.steps.size(), 7U);
}

TEST_F(TrainerTest, TheSeedDecidesTheOrder) {
  options_.steps = 3;
  FitOk();
  const double one = progress_.steps[2].loss;
  FitOk();
  EXPECT_EQ(progress_.steps[5].loss, one);
  options_.seed = 6;
  FitOk();
  EXPECT_NE(progress_.steps[8].loss, one);
}

}  // namespace
}  // namespace lockstep::train
