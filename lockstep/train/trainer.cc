#include "lockstep/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/base/counted.h"
#include "lockstep/train/replica_check.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Mean(double sum, int64_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

// The loss `where` is no number after so many updates, the last of which had this learning rate.
Status NotFinite(double loss, std::string_view where, int64_t updates, double rate) {
  const std::string what =
      fmt::format("the loss is {} {}", std::isnan(loss) ? "not a number" : "infinite", where);
  if (updates == 0) {
    return OutOfRange(what +
                      ", before the first update: the data or the model's initial values lead to "
                      "numbers beyond float32");
  }
  return OutOfRange(fmt::format(
      "{}: the learning rate{} may be too high; lower optimizer.learning_rate, or bound the "
      "gradients with train.clip_global_norm",
      what, std::isnan(rate) ? "" : fmt::format(" {}", rate)));
}

Status CheckStart(const TrainPosition& start, const std::string& dataset, int64_t per_epoch) {
  if (start.step < 0 || start.epoch != start.step / per_epoch ||
      start.batch_step != start.step % per_epoch) {
    return InvalidArgument(fmt::format(
        "the run would go on after {} steps at batch {} of epoch {}, but {} has {} batches an "
        "epoch: its size or the global batch has changed (all counted from 0)",
        start.step, start.batch_step, start.epoch, dataset, per_epoch));
  }
  return OkStatus();
}

// Model variables, then slots.
std::vector<std::string> StateOf(const Program& program) {
  std::vector<std::string> names = program.model_variables;
  names.insert(names.end(), program.slot_variables.begin(), program.slot_variables.end());
  return names;
}

}  // namespace

Result<int64_t> PlannedSteps(int64_t epochs, int64_t steps, int64_t steps_per_epoch) {
  if (epochs <= 0 && steps <= 0) {
    return InvalidArgument("a run needs a number of epochs or steps");
  }
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  const bool counts_epochs = epochs > 0 && epochs <= kNoLimit / steps_per_epoch;
  const int64_t by_epochs = counts_epochs ? epochs * steps_per_epoch : kNoLimit;
  return std::min(by_epochs, steps > 0 ? steps : kNoLimit);
}

void Trainer::Report(int64_t epoch, int64_t batch_step, int64_t steps_per_epoch, int64_t planned,
                     const StepResult& step, const FitResult& fit) {
  observe::StepReport report;
  report.epoch = epoch;
  report.epochs = options_.epochs;
  report.step = batch_step;
  report.steps = steps_per_epoch;
  report.run_step = fit.end.step;
  report.run_steps = planned;
  report.samples = step.samples;
  report.loss = step.loss;
  report.accuracy = Mean(static_cast<double>(step.correct), step.samples);
  progress_.OnStep(report);
}

Status Trainer::EvaluateTest(FitResult& fit) {
  Result<Metrics> metrics = Evaluate(dataset_.test);
  if (metrics.status().code() == StatusCode::kCancelled) {
    fit.stopped_early = true;
    fit.test.reset();
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(fit.test, std::move(metrics));
  if (!std::isfinite(fit.test->loss)) {
    return NotFinite(fit.test->loss,
                     fmt::format("on the test data after {}", Counted(fit.end.step, "step")),
                     fit.end.step, last_rate_);
  }
  return OkStatus();
}

Status Trainer::FinishEpoch(int64_t epoch, const EpochSums& sums, FitResult& fit) {
  observe::EpochReport report;
  report.epoch = epoch;
  report.epochs = options_.epochs;
  report.samples = sums.samples;
  report.seconds = sums.seconds;
  report.loss = Mean(sums.loss, sums.samples);
  report.accuracy = fit.accuracy;
  // Runs that count steps are often shorter than an evaluation.
  if (options_.epochs > 0 && dataset_.test.size() > 0) {
    LS_TRY(EvaluateTest(fit));
    if (fit.test.has_value()) {
      report.test_loss = fit.test->loss;
      report.test_accuracy = fit.test->accuracy;
    }
  }
  progress_.OnEpochEnd(report);
  return OkStatus();
}

Status Trainer::Account(const StepResult& step, EpochSums& sums, FitResult& fit) const {
  if (step.samples == 0) {
    return OkStatus();
  }
  if (!std::isfinite(step.loss)) {
    return NotFinite(step.loss, fmt::format("in step {}", fit.end.step), fit.end.step, last_rate_);
  }
  fit.samples += step.samples;
  fit.final_loss = step.loss;
  sums.samples += step.samples;
  sums.correct += step.correct;
  sums.loss += step.loss * static_cast<double>(step.samples);
  return OkStatus();
}

Status Trainer::RunEpoch(data::Batcher& batcher, int64_t planned, FitResult& fit) {
  TrainPosition& at = fit.end;
  const int64_t epoch = at.epoch;
  batcher.StartEpoch(epoch);
  fit.test.reset();
  const int64_t steps_per_epoch = batcher.steps_per_epoch();
  const Clock::time_point epoch_start = Clock::now();
  EpochSums sums;
  while (at.epoch == epoch && at.step < planned && !fit.stopped_early) {
    const Clock::time_point start = Clock::now();
    LS_ASSIGN_OR_RETURN(const double rate, LearningRateAt(options_.optimizer, at.step, planned));
    const StepRequest request{batcher, at.batch_step, at.step, static_cast<float>(rate)};
    Result<StepResult> step = runner_.RunStep(request);
    if (!step.ok()) {
      return step.status().With(fmt::format("step {}", at.step));
    }
    fit.step_seconds.push_back(SecondsSince(start));
    if (fit.steps == 0) {
      fit.first_step_end = Clock::now();
    }
    LS_TRY(Account(*step, sums, fit));
    last_rate_ = rate;
    ++fit.steps;
    ++at.step;
    ++at.batch_step;
    if (step->samples > 0) {
      Report(epoch, at.batch_step, steps_per_epoch, planned, *step, fit);
    }
    if (at.batch_step == steps_per_epoch) {
      at.batch_step = 0;
      ++at.epoch;
    }
    steps_done_ = at.step;
    if (options_.check_replicas > 0 && at.step % options_.check_replicas == 0) {
      LS_TRY(CheckWorkers());
    }
    if (step->together) {
      LS_ASSIGN_OR_RETURN(const bool stop, AnyShouldStop());
      fit.stopped_early = stop && at.step < planned;
    }
  }
  LS_ASSIGN_OR_RETURN(const StepResult rest, runner_.Merge());
  LS_TRY(Account(rest, sums, fit));
  sums.seconds = SecondsSince(epoch_start);
  fit.accuracy = Mean(static_cast<double>(sums.correct), sums.samples);
  return fit.stopped_early ? OkStatus() : FinishEpoch(epoch, sums, fit);
}

Status Trainer::BeginTogether(TrainPosition& at) {
  if (options_.workers == nullptr) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const Tensor position, Tensor::Zeros(DType::kInt64, Shape{3}));
  const std::span<int64_t> numbers = position.values<int64_t>();
  numbers[0] = at.step;
  numbers[1] = at.epoch;
  numbers[2] = at.batch_step;
  LS_TRY(options_.workers->Broadcast("position", position));
  at = {numbers[0], numbers[1], numbers[2]};
  exec::VariableStore& store = *runner_.shared_variables();
  for (const std::string& name : StateOf(program_)) {
    LS_ASSIGN_OR_RETURN(const Tensor value, store.Read(name));
    LS_TRY(options_.workers->Broadcast(name, value));
    if (options_.workers->self() != 0) {
      LS_TRY(store.Write(name, value));
    }
  }
  return OkStatus();
}

Status Trainer::CheckWorkers() const {
  return options_.workers == nullptr ? OkStatus()
                                     : CheckReplicas(*runner_.shared_variables(), StateOf(program_),
                                                     steps_done_, *options_.workers);
}

Result<FitResult> Trainer::Fit() {
  if (dataset_.train.size() == 0) {
    return InvalidArgument(fmt::format("{} has no training samples", dataset_.name));
  }
  data::BatcherOptions batching;
  batching.seed = options_.seed;
  batching.global_batch = options_.global_batch;
  batching.replicas = options_.parts;
  batching.shuffle = options_.shuffle;
  LS_ASSIGN_OR_RETURN(data::Batcher batcher, data::Batcher::Create(dataset_.train, batching));
  LS_ASSIGN_OR_RETURN(const int64_t planned,
                      PlannedSteps(options_.epochs, options_.steps, batcher.steps_per_epoch()));
  FitResult fit;
  fit.end = options_.start.value_or(TrainPosition());
  const bool has_state = options_.start.has_value();
  LS_TRY(has_state ? CheckStart(*options_.start, dataset_.name, batcher.steps_per_epoch())
                   : runner_.Initialize());
  LS_TRY(BeginTogether(fit.end));
  steps_done_ = fit.end.step;
  LS_ASSIGN_OR_RETURN(const bool stop, AnyShouldStop());
  fit.stopped_early = stop && fit.end.step < planned;
  const Clock::time_point start = Clock::now();
  const int64_t first_epoch = fit.end.epoch;
  Status status;
  while (status.ok() && fit.end.step < planned && !fit.stopped_early) {
    fit.epochs = fit.end.epoch - first_epoch + 1;
    status = RunEpoch(batcher, planned, fit);
  }
  progress_.OnEnd();
  LS_TRY(status);
  if (!fit.stopped_early && !fit.test.has_value() && dataset_.test.size() > 0) {
    LS_TRY(EvaluateTest(fit));
  }
  LS_TRY(CheckWorkers());
  fit.seconds = SecondsSince(start);
  fit.train_seconds = std::accumulate(fit.step_seconds.begin(), fit.step_seconds.end(), 0.0);
  return fit;
}

Result<exec::Session*> Trainer::EvalSession() {
  if (eval_session_ == nullptr) {
    LS_ASSIGN_OR_RETURN(eval_session_,
                        exec::Session::Create(*program_.eval.graph, {.seed = options_.seed},
                                              runner_.shared_variables()));
  }
  return eval_session_.get();
}

Status Trainer::EvaluateBatch(const data::Split& split, int64_t batch, std::span<int64_t, 3> sums) {
  const EvalGraph& eval = program_.eval;
  const int64_t begin = batch * options_.eval_batch;
  const int64_t count = std::min(options_.eval_batch, split.size() - begin);
  std::vector<uint32_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
  Shape shape = eval.features.shape();
  shape.set_dim(0, count);
  LS_ASSIGN_OR_RETURN(const Tensor features, Tensor::Allocate(DType::kFloat32, shape));
  LS_ASSIGN_OR_RETURN(const Tensor labels, Tensor::Allocate(DType::kInt32, Shape{count}));
  split.Gather(indices, features.values<float>().data(), labels.values<int32_t>().data());
  const Tensor feeds[] = {features, labels};
  std::vector<Tensor> results(sums.size());
  LS_TRY(eval_->Run(feeds, results, {options_.seed, 0, 0}).With("evaluation"));
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = std::bit_cast<int64_t>(static_cast<double>(results[i].values<float>()[0]));
  }
  return OkStatus();
}

Result<Metrics> Trainer::Evaluate(const data::Split& split) {
  LS_ASSIGN_OR_RETURN(exec::Session * session, EvalSession());
  const EvalGraph& eval = program_.eval;
  LS_ASSIGN_OR_RETURN(
      eval_, session->Prepare(
                 {{eval.features, eval.labels}, {eval.loss_sum, eval.correct, eval.in_top5}, {}}));
  constexpr size_t kSums = 3;
  const int64_t batches = (split.size() + options_.eval_batch - 1) / options_.eval_batch;
  const int self = options_.workers == nullptr ? 0 : options_.workers->self();
  const int workers = options_.workers == nullptr ? 1 : options_.workers->count();
  // Bits of float64: of each batch the sums, which are added in the order of the batches whoever
  // has measured them.
  std::vector<int64_t> sums(static_cast<size_t>(batches) * kSums);
  std::vector<int64_t> counts;
  bool stop = false;
  for (int worker = 0; worker < workers; ++worker) {
    const int64_t begin = batches * worker / workers;
    const int64_t end = batches * (worker + 1) / workers;
    counts.push_back((end - begin) * static_cast<int64_t>(kSums));
    for (int64_t batch = begin; worker == self && batch < end && !stop; ++batch) {
      stop = ShouldStop();
      const auto at = sums.begin() + batch * static_cast<int64_t>(kSums);
      LS_TRY(stop ? OkStatus() : EvaluateBatch(split, batch, std::span<int64_t, kSums>(at, kSums)));
    }
  }
  if (options_.workers != nullptr) {
    LS_ASSIGN_OR_RETURN(stop, options_.workers->Any(stop));
  }
  if (stop) {
    return Cancelled("stopped during the evaluation");
  }
  if (options_.workers != nullptr) {
    LS_TRY(options_.workers->AllGather("evaluation", sums, counts));
  }
  std::array<double, kSums> totals = {};
  for (size_t i = 0; i < sums.size(); ++i) {
    totals[i % kSums] += std::bit_cast<double>(sums[i]);
  }
  Metrics metrics;
  metrics.samples = split.size();
  metrics.loss = Mean(totals[0], metrics.samples);
  metrics.accuracy = Mean(totals[1], metrics.samples);
  metrics.top5_accuracy = Mean(totals[2], metrics.samples);
  return metrics;
}

Result<Tensor> Trainer::Predict(const Tensor& features) {
  LS_ASSIGN_OR_RETURN(exec::Session * session, EvalSession());
  LS_ASSIGN_OR_RETURN(std::vector<Tensor> out, session->Run({{program_.eval.features, features}},
                                                            {program_.eval.probabilities}));
  return out[0];
}

}  // namespace lockstep::train
