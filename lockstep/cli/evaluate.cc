#include "lockstep/cli/evaluate.h"

#include <fmt/format.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/checkpoints.h"
#include "lockstep/cli/outputs.h"
#include "lockstep/cli/process_age.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::cli {

Outcome Evaluate(const EvaluateFlags& flags) {
  Job job;
  Outcome outcome = ReadJobConfig(flags.job, /*workers=*/1, job);
  if (outcome.status.ok() && job.config.data.source == "synthetic" &&
      job.config.data.test_samples == 0) {
    return Fail(ExitCode::kUsage,
                AtKey(InvalidArgument("data.test_samples is 0: there is nothing to measure"),
                      job.config, "data.test_samples"));
  }
  std::unique_ptr<train::SummaryFile> summary_file;
  if (outcome.status.ok()) {
    outcome = OpenSummary(flags.summary_path, {flags.job.config_path, job.config, flags.checkpoint},
                          summary_file);
  }
  if (outcome.status.ok()) {
    outcome = CheckCheckpointPath(flags.checkpoint);
  }
  if (outcome.status.ok()) {
    outcome = PrepareJob(DataNeed::kSamples, job);
  }
  if (outcome.status.ok()) {
    PrintDataWarnings(job);
    outcome = MakeStrategy({}, job);
  }
  if (!outcome.status.ok()) {
    return outcome;
  }
  if (job.dataset.test.size() == 0) {
    return Fail(ExitCode::kData,
                InvalidArgument(fmt::format("{} has no test samples", Shown(job.dataset.name))));
  }
  if (Status status = LoadModel(flags.checkpoint, job); !status.ok()) {
    return Fail(ExitCode::kData, std::move(status));
  }
  const std::unique_ptr<observe::Progress> progress = observe::MakeQuietProgress();
  train::Trainer trainer(job.program, *job.strategy, job.dataset, job.TrainerOptionsOf(),
                         *progress);
  Result<train::Metrics> metrics = trainer.Evaluate(job.dataset.test);
  if (!metrics.ok()) {
    return Fail(CodeOf(metrics.status()), metrics.status());
  }
  Result<std::string> hash =
      train::HashVariables(*job.strategy->shared_variables(), job.program.model_variables);
  if (!hash.ok()) {
    return Fail(ExitCode::kOther, hash.status());
  }
  if (!flags.quiet) {
    PrintOutput(fmt::format("{}: loss {:.4f}, accuracy {:.4f}, top-5 accuracy {:.4f}\n",
                            Counted(metrics->samples, "sample"), metrics->loss, metrics->accuracy,
                            metrics->top5_accuracy));
  }
  if (summary_file != nullptr) {
    train::Summary summary;
    summary.model = job.config.model.name;
    summary.strategy = job.strategy->name();
    summary.devices = job.strategy->num_devices();
    summary.replicas = job.config.train.replicas;
    summary.global_batch = job.config.train.global_batch;
    summary.final_loss = metrics->loss;
    summary.test_accuracy = metrics->accuracy;
    summary.peak_rss_bytes = train::PeakRssBytes();
    summary.params_sha256 = *hash;
    summary.wall_seconds = ProcessAge();
    if (Status status = summary_file->Write(summary); !status.ok()) {
      return Fail(ExitCode::kOther, std::move(status));
    }
  }
  return Done();
}

}  // namespace lockstep::cli
