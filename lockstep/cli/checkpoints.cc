#include "lockstep/cli/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/fingerprints.h"
#include "lockstep/cli/outputs.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/fingerprint.h"

namespace lockstep::cli {
namespace {

// Every variable of the program with its role.
std::vector<train::VariableSpec> SpecsOf(const train::Program& program) {
  std::vector<train::VariableSpec> specs;
  const auto& slots = program.slot_variables;
  for (const Value& variable : program.train.graph->Collection(collection::kVariables)) {
    train::VariableSpec spec;
    spec.name = variable.node->name;
    spec.role = std::binary_search(slots.begin(), slots.end(), spec.name)
                    ? train::VariableRole::kSlot
                    : train::VariableRole::kModel;
    spec.dtype = variable.dtype();
    spec.shape = variable.shape();
    specs.push_back(std::move(spec));
  }
  return specs;
}

// "optimizer.name is "sgd" in the checkpoint, "adam" in this run; ... and 3 more".
std::string Listed(const std::vector<train::FingerprintDifference>& differences,
                   const train::Config& config) {
  constexpr size_t kMostShown = 10;
  constexpr std::string_view kDecaySteps = "optimizer.schedule.decay_steps";
  std::vector<std::string> texts;
  for (const train::FingerprintDifference& difference : differences) {
    if (texts.size() == kMostShown) {
      texts.push_back(fmt::format("and {} more", differences.size() - kMostShown));
      break;
    }
    texts.push_back(difference.text);
    if (difference.name == kDecaySteps && !config.IsGiven(kDecaySteps)) {
      texts.back() +=
          ", where nobody gave it: the schedule is as long as the run, so keep train.steps and "
          "train.epochs, or give the checkpoint's value";
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Whether a run that goes on from the checkpoint is the run that made it.
Status CheckSameRun(const train::CheckpointInfo& info, const Job& job) {
  LS_ASSIGN_OR_RETURN(const std::string fingerprint, RunFingerprint(job));
  Result<train::FingerprintDifferences> differences =
      train::CompareFingerprints(info.contents.program_fingerprint, fingerprint);
  if (!differences.ok()) {
    return Status(differences.status().code(),
                  fmt::format("{}: {}: it can be evaluated, but whether a run would go on as it "
                              "began cannot be known",
                              Shown(info.folder), differences.status().message()));
  }
  if (!differences->settings.empty()) {
    return FailedPrecondition(
        fmt::format("{} is of a run with other settings, --resume would not go on as it began: {}",
                    Shown(info.folder), Listed(differences->settings, job.config)));
  }
  if (!differences->rounding.empty()) {
    PrintWarning(
        fmt::format("{}: sums are rounded otherwise from here on, so that the run does "
                    "not end with the same bits as without the interruption",
                    Listed(differences->rounding, job.config)));
  }
  return OkStatus();
}

// Whether the parameters belong into this model. The names and shapes of variables do not say it:
// an activation has neither.
Status CheckSameModel(const train::CheckpointInfo& info, const Job& job) {
  const std::string fingerprint = ModelFingerprint(job);
  Result<train::FingerprintDifferences> differences =
      train::CompareModels(info.contents.program_fingerprint, fingerprint);
  if (!differences.ok()) {
    PrintWarning(fmt::format("{}: {}: that it is of this model cannot be known", Shown(info.folder),
                             differences.status().message()));
    return OkStatus();
  }
  if (!differences->settings.empty()) {
    return FailedPrecondition(fmt::format("{} is of another model: {}", Shown(info.folder),
                                          Listed(differences->settings, job.config)));
  }
  if (!differences->rounding.empty()) {
    PrintWarning(fmt::format("{}: the numbers are rounded otherwise than in training",
                             Listed(differences->rounding, job.config)));
  }
  if (!differences->made_up_data.empty()) {
    PrintWarning(fmt::format(
        "{}: another seed makes up other data, of which the model has learnt nothing; --seed with "
        "the checkpoint's value measures what it has learnt",
        Listed(differences->made_up_data, job.config)));
  }
  return OkStatus();
}

Result<train::Checkpoint> ReadWithWarning(const std::string& path) {
  LS_ASSIGN_OR_RETURN(train::Checkpoint checkpoint, train::ReadCheckpoint(path));
  if (!checkpoint.info.warning.empty()) {
    PrintWarning(checkpoint.info.warning);
  }
  return checkpoint;
}

}  // namespace

Outcome CheckCheckpointPath(const std::string& path) {
  Status status = CheckFolder(path);
  return status.ok() ? Done() : Fail(CodeOfPath(status), status.With("--checkpoint"));
}

Outcome OpenRunFolder(const std::string& dir, bool resume, std::unique_ptr<train::RunFolder>& run) {
  Result<std::unique_ptr<train::RunFolder>> opened = train::RunFolder::Open(dir, !resume);
  if (!opened.ok()) {
    return Fail(CodeOfPath(opened.status()), opened.status());
  }
  run = std::move(opened).value();
  if (!resume) {
    if (Status status = run->CheckNew(); !status.ok()) {
      return Fail(CodeOfPath(status), std::move(status));
    }
  }
  return Done();
}

Status CheckSpace(const train::RunFolder& run, const Job& job) {
  uint64_t bytes = 0;
  for (const train::VariableSpec& spec : SpecsOf(job.program)) {
    bytes += static_cast<uint64_t>(spec.shape.num_elements()) * DTypeSize(spec.dtype);
  }
  return run.CheckSpace(bytes);
}

Status SaveJob(train::RunFolder& run, const Job& job, const train::FitResult& fit) {
  train::CheckpointContents contents;
  contents.step = fit.end.step;
  contents.epoch = fit.end.epoch;
  contents.next_batch_step = fit.end.batch_step;
  contents.seed = static_cast<uint64_t>(job.config.train.seed);
  contents.model_variables = job.program.model_variables;
  contents.slot_variables = job.program.slot_variables;
  LS_ASSIGN_OR_RETURN(contents.program_fingerprint, RunFingerprint(job));
  contents.config = job.config.text;
  const Result<train::SavedCheckpoint> saved =
      run.Save(contents, *job.strategy->shared_variables());
  if (!saved.ok()) {
    return saved.status().With(fmt::format(
        "the checkpoint of step {} could not be saved: {} lost, earlier checkpoints are "
        "as they were",
        fit.end.step, Counted(fit.steps, "step of this run is", "steps of this run are")));
  }
  for (const std::string& path : saved->set_aside) {
    PrintWarning(
        fmt::format("{}: this was in the way of a checkpoint, and has this name now", Shown(path)));
  }
  return OkStatus();
}

// Settings are compared before the variables: they say more than shapes.

Outcome ResumeJob(const std::string& dir, train::RunFolder& run, Job& job,
                  train::TrainPosition& position) {
  const Result<train::Checkpoint> checkpoint = ReadWithWarning(dir);
  if (!checkpoint.ok()) {
    return Fail(ExitCode::kData, checkpoint.status());
  }
  if (Status status = CheckSameRun(checkpoint->info, job); !status.ok()) {
    return Fail(ExitCode::kData, std::move(status));
  }
  if (Status status = run.CheckResumed(checkpoint->info); !status.ok()) {
    return Fail(CodeOfPath(status), std::move(status));
  }
  const train::CheckpointContents& contents = checkpoint->info.contents;
  position = {contents.step, contents.epoch, contents.next_batch_step};
  Status restored = train::RestoreVariables(*checkpoint, SpecsOf(job.program), {.slots = true},
                                            *job.strategy->shared_variables());
  return restored.ok() ? Done() : Fail(ExitCode::kData, std::move(restored));
}

Status LoadModel(const std::string& path, Job& job) {
  LS_ASSIGN_OR_RETURN(const train::Checkpoint checkpoint, ReadWithWarning(path));
  LS_TRY(CheckSameModel(checkpoint.info, job));
  return train::RestoreVariables(checkpoint, SpecsOf(job.program), {.slots = false},
                                 *job.strategy->shared_variables());
}

}  // namespace lockstep::cli
