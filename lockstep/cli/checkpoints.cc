#include "lockstep/cli/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lockstep/base/quote.h"
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

Result<std::string> FingerprintOf(const Job& job) {
  const train::Config& config = job.config;
  train::RunFacts facts;
  facts.sample_shape = job.dataset.sample_shape;
  facts.num_classes = std::max(config.model.num_classes, job.dataset.num_classes);
  facts.train_samples = job.dataset.train.size();
  if (config.data.source != "synthetic") {
    LS_ASSIGN_OR_RETURN(facts.data_sha256, data::ContentSha256(job.dataset.train));
  }
  LS_ASSIGN_OR_RETURN(
      facts.planned_steps,
      train::PlannedSteps(config.train.epochs, config.train.steps,
                          data::StepsPerEpoch(facts.train_samples, config.train.global_batch)));
  facts.threads_per_device = job.threads_per_device;
  return train::MakeFingerprint(config, facts);
}

// Whether a run that goes on from the checkpoint is the run that made it.
Status CheckSameRun(const train::CheckpointInfo& info, const Job& job) {
  LS_ASSIGN_OR_RETURN(const std::string fingerprint, FingerprintOf(job));
  Result<train::FingerprintDifferences> differences =
      train::CompareFingerprints(info.contents.program_fingerprint, fingerprint);
  if (!differences.ok()) {
    return Status(differences.status().code(),
                  fmt::format("{}: {}", Shown(info.folder), differences.status().message()));
  }
  if (!differences->settings.empty()) {
    constexpr size_t kMostShown = 10;
    const auto& settings = differences->settings;
    const auto end = std::next(settings.begin(),
                               static_cast<std::ptrdiff_t>(std::min(kMostShown, settings.size())));
    return FailedPrecondition(fmt::format(
        "{} is of a run with other settings, --resume would not go on as it began: {}{}",
        Shown(info.folder), fmt::join(settings.begin(), end, "; "),
        settings.size() > kMostShown ? fmt::format("; and {} more", settings.size() - kMostShown)
                                     : ""));
  }
  if (!differences->rounding.empty()) {
    PrintWarning(
        fmt::format("{}: sums are rounded otherwise from here on, so that the run does "
                    "not end with the same bits as without the interruption",
                    fmt::join(differences->rounding, "; ")));
  }
  return OkStatus();
}

}  // namespace

Status CheckNewRun(const std::string& dir) {
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, train::CheckpointSteps(dir));
  if (steps.empty()) {
    return OkStatus();
  }
  return AlreadyExists(fmt::format(
      "{} holds checkpoints of another run already, the newest of step {}: go on from it with "
      "--resume, or give this run a folder of its own",
      Shown(dir), steps.front()));
}

Status SaveJob(const std::string& dir, const Job& job, const train::FitResult& fit) {
  train::CheckpointContents contents;
  contents.step = fit.end.step;
  contents.epoch = fit.end.epoch;
  contents.next_batch_step = fit.end.batch_step;
  contents.seed = static_cast<uint64_t>(job.config.train.seed);
  contents.model_variables = job.program.model_variables;
  contents.slot_variables = job.program.slot_variables;
  LS_ASSIGN_OR_RETURN(contents.program_fingerprint, FingerprintOf(job));
  contents.config = job.config.text;
  return train::SaveCheckpoint(dir, contents, *job.strategy->shared_variables()).status();
}

Status LoadJob(const std::string& path, bool with_slots, Job& job, train::TrainPosition* position) {
  LS_ASSIGN_OR_RETURN(const train::Checkpoint checkpoint, train::ReadCheckpoint(path));
  const train::CheckpointInfo& info = checkpoint.info;
  if (!info.warning.empty()) {
    PrintWarning(info.warning);
  }
  if (position != nullptr) {
    // Before the variables: settings say more than shapes.
    LS_TRY(CheckSameRun(info, job));
    *position = {info.contents.step, info.contents.epoch, info.contents.next_batch_step};
  }
  return train::RestoreVariables(checkpoint, SpecsOf(job.program), {.slots = with_slots},
                                 *job.strategy->shared_variables());
}

}  // namespace lockstep::cli
