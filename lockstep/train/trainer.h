// Trainer: runs a program over a data set: epochs of steps, evaluation, prediction. Metrics are
// exact means over samples. Works with any strategy (StepRunner).
//
//   Trainer trainer(program, *strategy, dataset, options, *progress);
//   LS_ASSIGN_OR_RETURN(const FitResult fit, trainer.Fit());
//   LS_ASSIGN_OR_RETURN(const Metrics test, trainer.Evaluate(dataset.test));
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/exec/session.h"
#include "lockstep/observe/progress.h"
#include "lockstep/train/config.h"
#include "lockstep/train/program.h"
#include "lockstep/train/step_runner.h"
#include "lockstep/train/workers.h"

namespace lockstep::train {

// Where a run stands.
struct TrainPosition {
  // Steps done in the life of the parameters.
  int64_t step = 0;
  // The next batch.
  int64_t epoch = 0;
  int64_t batch_step = 0;
};

struct TrainerOptions {
  int64_t global_batch = 64;
  // Parts of each step, as the strategy has them.
  int parts = 1;
  // Whichever comes first ends the run, counted from the beginning of the parameters' life; 0: no
  // limit of this kind, and one of them must be set.
  int64_t epochs = 0;
  int64_t steps = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t eval_batch = 256;
  OptimizerConfig optimizer;
  // Goes on from here with the variables as they are, instead of initialising them. An error where
  // so many steps of this data and batch do not lead to this batch of this epoch.
  std::optional<TrainPosition> start;
  // Called before the first step, between steps and between batches of an evaluation, with the
  // number of steps done; true ends the run early.
  std::function<bool(int64_t)> should_stop;
  // Null: this process trains alone. Otherwise all of them make the same run together: from the
  // chief's variables and position, to the same step, even if only one of them should stop. Must
  // outlive the trainer.
  Workers* workers = nullptr;
  // Steps between comparisons of the workers' variables; 0: only at the end.
  int64_t check_replicas = 0;
};

struct Metrics {
  int64_t samples = 0;
  // Means over the samples; NaN if there are none.
  double loss = 0;
  double accuracy = 0;
  double top5_accuracy = 0;
};

struct FitResult {
  // Done by this run.
  int64_t steps = 0;
  // Begun.
  int64_t epochs = 0;
  int64_t samples = 0;
  // Mean loss of the last step.
  double final_loss = 0;
  // Over the samples of the last epoch (or the part of it that was run), each as it was when its
  // step began.
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  // Of each step.
  std::vector<double> step_seconds;
  std::chrono::steady_clock::time_point first_step_end;
  // Of the whole fit, evaluations included; and of its steps alone.
  double seconds = 0;
  double train_seconds = 0;
  bool stopped_early = false;
  TrainPosition end;
  // On the test data with the final parameters; absent where there is none, or after an early stop.
  std::optional<Metrics> test;
};

// The length of a run from the beginning of the parameters' life: whichever of `epochs` and `steps`
// ends first; 0 is no limit of that kind, and both 0 an error.
Result<int64_t> PlannedSteps(int64_t epochs, int64_t steps, int64_t steps_per_epoch);

class Trainer {
 public:
  // Everything passed must outlive the trainer.
  Trainer(const Program& program, StepRunner& runner, const data::Dataset& dataset,
          TrainerOptions options, observe::Progress& progress)
      : program_(program),
        runner_(runner),
        dataset_(dataset),
        options_(std::move(options)),
        progress_(progress) {}

  // Initialises the variables and trains. A loss that is not finite, in a step or on the test data
  // behind it, is an error that names the step and what may cause it. With workers also their
  // errors, and CheckReplicas'.
  Result<FitResult> Fit();

  // CANCELLED when should_stop says so. Workers deal the batches out among themselves.
  Result<Metrics> Evaluate(const data::Split& split);

  // Class probabilities float32 [N, classes] of features float32 [N, ...].
  Result<Tensor> Predict(const Tensor& features);

 private:
  struct EpochSums {
    int64_t samples = 0;
    int64_t correct = 0;
    double loss = 0;
    double seconds = 0;
  };

  // Counts what a step says, whose loss must be finite.
  Status Account(const StepResult& step, EpochSums& sums, FitResult& fit) const;
  // From the position to the end of its epoch, of the run, or to a stop.
  Status RunEpoch(data::Batcher& batcher, int64_t planned, FitResult& fit);
  Status FinishEpoch(int64_t epoch, const EpochSums& sums, FitResult& fit);
  // Measures the test data with the parameters as they are; asked to stop, it leaves that out.
  Status EvaluateTest(FitResult& fit);

  // All workers begin where the chief does, with its variables.
  Status BeginTogether(TrainPosition& at);
  Status CheckWorkers() const;

  bool ShouldStop() const { return options_.should_stop && options_.should_stop(steps_done_); }

  // The same for all workers.
  Result<bool> AnyShouldStop() const {
    return options_.workers == nullptr ? ShouldStop() : options_.workers->Any(ShouldStop());
  }

  // Adds what a batch of the split contributes to loss, accuracy and top-5 accuracy.
  Status EvaluateBatch(const data::Split& split, int64_t batch, std::span<int64_t, 3> sums);

  // After the step that led to `fit.end`.
  void Report(int64_t epoch, int64_t batch_step, int64_t steps_per_epoch, int64_t planned,
              const StepResult& step, const FitResult& fit);
  Result<exec::Session*> EvalSession();

  const Program& program_;
  StepRunner& runner_;
  const data::Dataset& dataset_;
  const TrainerOptions options_;
  observe::Progress& progress_;
  std::unique_ptr<exec::Session> eval_session_;
  exec::Callable* eval_ = nullptr;
  // In the life of the parameters.
  int64_t steps_done_ = 0;
  // Of the last update; not known where another run made it.
  double last_rate_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace lockstep::train
