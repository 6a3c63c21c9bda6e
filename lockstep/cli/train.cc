#include "lockstep/cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/checkpoints.h"
#include "lockstep/cli/fingerprints.h"
#include "lockstep/cli/outputs.h"
#include "lockstep/cli/process_age.h"
#include "lockstep/cli/train_launcher.h"
#include "lockstep/cli/train_place.h"
#include "lockstep/cli/worker_task.h"
#include "lockstep/observe/terminal.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<observe::Progress> MakeProgress(const TrainFlags& flags,
                                                const train::Config& config) {
  if (flags.quiet) {
    return observe::MakeQuietProgress();
  }
  if (observe::TerminalWidth(STDOUT_FILENO).has_value()) {
    return observe::MakeTerminalProgress(
        std::cout, [] { return observe::TerminalWidth(STDOUT_FILENO).value_or(80); },
        observe::SteadyClock());
  }
  return observe::MakeLineProgress(std::cout, {.every_steps = config.train.log_every_steps},
                                   observe::SteadyClock());
}

Status FillSummary(const Job& job, const train::FitResult& fit, train::Summary& summary) {
  const train::Config& config = job.config;
  summary.model = config.model.name;
  summary.strategy = job.strategy->name();
  summary.devices = job.strategy->num_devices();
  summary.replicas = config.train.replicas;
  summary.global_batch = config.train.global_batch;
  summary.steps = fit.steps;
  summary.epochs = fit.epochs;
  summary.examples = fit.samples;
  summary.final_loss = fit.steps > 0 ? fit.final_loss : train::Summary::kUnknown;
  summary.train_accuracy = fit.accuracy;
  summary.examples_per_second = static_cast<double>(fit.samples) / fit.train_seconds;
  summary.step_ms_p50 = 1e3 * train::Percentile(fit.step_seconds, 50);
  summary.step_ms_p95 = 1e3 * train::Percentile(fit.step_seconds, 95);
  summary.peak_rss_bytes = train::PeakRssBytes();
  summary.sync_rounds = job.strategy->sync_rounds();
  const exec::VariableStore& store = *job.strategy->shared_variables();
  LS_ASSIGN_OR_RETURN(summary.params_sha256,
                      train::HashVariables(store, job.program.model_variables));
  LS_ASSIGN_OR_RETURN(summary.state_sha256,
                      train::HashState(store, job.program.model_variables,
                                       job.program.slot_variables, fit.end.step));
  return OkStatus();
}

void PrintEnd(const train::Summary& summary, const TrainFlags& flags) {
  if (summary.steps > 0) {
    PrintOutput(fmt::format("{}, {}, {:.0f} samples/s, final loss {:.4f}\n",
                            Counted(summary.steps, "step"), Counted(summary.examples, "sample"),
                            summary.examples_per_second, summary.final_loss));
  }
  if (!std::isnan(summary.test_accuracy)) {
    PrintOutput(fmt::format("test accuracy {:.4f}\n", summary.test_accuracy));
  }
  PrintOutput(fmt::format("params_sha256 {}\n", summary.params_sha256));
  if (!flags.summary_path.empty()) {
    PrintOutput(fmt::format("summary {}\n", EscapeControls(flags.summary_path)));
  }
}

// What the run writes to, and has for itself until its end.
struct RunOutputs {
  // Null for none.
  std::unique_ptr<train::RunFolder> folder;
  // May be in that folder, so it goes first. Null for none.
  std::unique_ptr<train::SummaryFile> summary;
};

// Stopped before anything was done.
Outcome Interrupted(const TrainFlags& flags) {
  if (!flags.quiet) {
    PrintOutput("interrupted before the first step: there is nothing to save or to sum up\n");
  }
  return {OkStatus(), ExitCode::kInterrupted};
}

// What a summary says of all workers together; all of them call it.
Status SumUpWorkers(train::Workers& workers, train::Summary& summary) {
  constexpr size_t kNumbers = 2;
  const auto count = static_cast<size_t>(workers.count());
  std::vector<int64_t> numbers(count * kNumbers);
  const size_t own = static_cast<size_t>(workers.self()) * kNumbers;
  numbers[own] = summary.devices;
  numbers[own + 1] = static_cast<int64_t>(summary.peak_rss_bytes);
  LS_TRY(workers.AllGather("summary", numbers, std::vector<int64_t>(count, kNumbers)));
  summary.workers = workers.count();
  summary.devices = 0;
  for (size_t worker = 0; worker < count; ++worker) {
    summary.devices += numbers[worker * kNumbers];
    summary.peak_rss_bytes =
        std::max(summary.peak_rss_bytes, static_cast<uint64_t>(numbers[worker * kNumbers + 1]));
  }
  return OkStatus();
}

Outcome Finish(const TrainFlags& flags, RunOutputs& outputs, Job& job, const train::FitResult& fit,
               train::Summary summary) {
  if (fit.steps == 0 && fit.stopped_early) {
    return Interrupted(flags);
  }
  if (fit.steps == 0 && !flags.quiet) {
    PrintOutput(fmt::format("nothing left to do: {} done before\n",
                            Counted(fit.end.step, "step was", "steps were")));
  }
  if (outputs.folder != nullptr && fit.steps > 0) {
    Status saved = SaveJob(*outputs.folder, job, fit);
    if (!saved.ok()) {
      return Fail(ExitCode::kOther, std::move(saved));
    }
  }
  if (fit.stopped_early && !flags.quiet) {
    PrintOutput(fmt::format("interrupted after {}{}\n", Counted(fit.steps, "step"),
                            flags.checkpoint_dir.empty()
                                ? "; nothing saved, as there is no --checkpoint-dir"
                                : ", checkpoint saved in " + EscapeControls(flags.checkpoint_dir)));
  }
  if (fit.test.has_value()) {
    summary.test_accuracy = fit.test->accuracy;
  }
  summary.wall_seconds = ProcessAge();
  if (outputs.summary != nullptr) {
    if (Status status = outputs.summary->Write(summary); !status.ok()) {
      return Fail(ExitCode::kOther, std::move(status));
    }
  }
  if (!flags.quiet) {
    PrintEnd(summary, flags);
  }
  return {OkStatus(), fit.stopped_early ? ExitCode::kInterrupted : ExitCode::kDone};
}

// Where to write: what would be a pity to find out at the end of a long run.
Outcome OpenOutputs(const Job& job, TrainFlags& flags, RunOutputs& outputs) {
  if (flags.checkpoint_dir.empty()) {
    flags.checkpoint_dir = job.config.checkpoint.dir;
  }
  if (flags.resume && job.strategy_name == kLocalSgd) {
    return Fail(ExitCode::kUsage,
                Unimplemented("--resume with --strategy local_sgd, whose replicas are saved as one "
                              "merged model, is not available in this version"));
  }
  if (flags.resume && flags.checkpoint_dir.empty()) {
    return Fail(ExitCode::kUsage,
                InvalidArgument("--resume needs --checkpoint-dir, or checkpoint.dir"));
  }
  Outcome outcome;
  if (!flags.checkpoint_dir.empty()) {
    outcome = OpenRunFolder(flags.checkpoint_dir, flags.resume, outputs.folder);
  }
  if (outcome.status.ok()) {
    outcome =
        OpenSummary(flags.summary_path, {flags.job.config_path, job.config, flags.checkpoint_dir},
                    outputs.summary);
  }
  return outcome;
}

// Of a worker that is not the chief: it prints errors, and writes nothing.
TrainFlags WithoutOutputs(TrainFlags flags) {
  flags.quiet = true;
  flags.summary_path.clear();
  flags.checkpoint_dir.clear();
  flags.resume = false;
  return flags;
}

// From the configuration to a job that is ready to train, as the task of a cluster if it is one.
Outcome PrepareRun(const TrainPlace& place, TrainFlags& flags, const StopSignals& signals,
                   RunOutputs& outputs, std::unique_ptr<WorkerTask>& task, Job& job) {
  job.strategy_name = place.strategy;
  Outcome outcome = ReadJobConfig(flags.job, place.workers, job);
  if (outcome.status.ok() && place.is_chief()) {
    WarnOfWaste(job, place.workers);
    outcome = OpenOutputs(job, flags, outputs);
  }
  const bool is_worker = place.kind == TrainPlace::Kind::kWorker;
  if (outcome.status.ok() && is_worker) {
    outcome = WorkerTask::Start(place, flags.job, job.config, signals, task);
  }
  if (outcome.status.ok()) {
    outcome = PrepareJob(DataNeed::kSamples, job, [&signals] { return signals.Received(); });
  }
  if (outcome.status.ok() && place.is_chief()) {
    PrintDataWarnings(job);
  }
  if (outcome.status.ok() && outputs.folder != nullptr) {
    if (Status status = CheckSpace(*outputs.folder, job); !status.ok()) {
      outcome = Fail(ExitCode::kOther, std::move(status));
    }
  }
  if (outcome.status.ok() && is_worker) {
    const Result<std::string> fingerprint = WorkerFingerprint(job);
    outcome = fingerprint.ok() ? task->Meet(*fingerprint, job.parts(), signals)
                               : Fail(ExitCode::kUsage, fingerprint.status());
  }
  if (outcome.status.ok()) {
    outcome =
        MakeStrategy(is_worker ? JobWorkers{&task->group(), &task->workers()} : JobWorkers(), job);
  }
  return outcome;
}

Outcome TrainHere(const TrainPlace& place, TrainFlags flags, const StopSignals& signals,
                  std::unique_ptr<WorkerTask>& task) {
  const Clock::time_point entered = Clock::now();
  const double age_at_entry = ProcessAge();
  Job job;
  RunOutputs outputs;
  Outcome outcome = PrepareRun(place, flags, signals, outputs, task, job);
  if (outcome.status.code() == StatusCode::kCancelled) {
    return Interrupted(flags);
  }
  if (!outcome.status.ok()) {
    return outcome;
  }
  const std::unique_ptr<observe::Progress> progress = MakeProgress(flags, job.config);
  train::TrainerOptions options = job.TrainerOptionsOf();
  if (flags.resume) {
    train::TrainPosition start;
    outcome = ResumeJob(flags.checkpoint_dir, *outputs.folder, job, start);
    if (!outcome.status.ok()) {
      return outcome;
    }
    options.start = start;
  }
  options.should_stop = [&signals](int64_t) { return signals.Received(); };
  options.workers = task != nullptr ? &task->workers() : nullptr;
  options.check_replicas = job.config.train.check_replicas;
  train::Trainer trainer(job.program, *job.strategy, job.dataset, std::move(options), *progress);
  Result<train::FitResult> fit = trainer.Fit();
  if (!fit.ok()) {
    return Fail(CodeOf(fit.status()), fit.status());
  }
  train::Summary summary;
  if (fit->steps > 0) {
    summary.first_step_seconds =
        age_at_entry + std::chrono::duration<double>(fit->first_step_end - entered).count();
  }
  Status status = FillSummary(job, *fit, summary);
  if (status.ok() && task != nullptr) {
    status = SumUpWorkers(task->workers(), summary);
  }
  return status.ok() ? Finish(flags, outputs, job, *fit, std::move(summary))
                     : Fail(CodeOf(status), status);
}

}  // namespace

Outcome Train(const TrainFlags& flags, std::optional<StopSignals>& signals) {
  TrainPlace place;
  if (Outcome outcome = FindTrainPlace(flags.job, place); !outcome.status.ok()) {
    return outcome;
  }
  if (place.kind == TrainPlace::Kind::kLauncher) {
    signals.reset();
    return LaunchTraining(flags, place);
  }
  if (!signals.has_value()) {
    signals.emplace();
  }
  if (!flags.quiet && place.is_chief()) {
    signals->WatchOutput();
  }
  std::unique_ptr<WorkerTask> task;
  Outcome outcome =
      TrainHere(place, place.is_chief() ? flags : WithoutOutputs(flags), *signals, task);
  if (task != nullptr) {
    outcome.status = task->Cause(std::move(outcome.status));
    if (const Status left = task->Leave(outcome.status); !left.ok() && outcome.status.ok()) {
      PrintWarning(fmt::format("this task is done, but {}", left.message()));
    }
  }
  return outcome;
}

}  // namespace lockstep::cli
