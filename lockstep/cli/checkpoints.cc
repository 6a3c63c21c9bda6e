#include "lockstep/cli/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/train/checkpoint.h"

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

// What must not change when a run goes on.
std::string FingerprintOf(const Job& job) {
  return fmt::format("model {}, replicas {}, micro-batches {}, global batch {}",
                     job.config.model.name, job.config.train.replicas,
                     job.config.train.gradient_accumulation, job.config.train.global_batch);
}

}  // namespace

Status SaveJob(const std::string& dir, const Job& job, const train::FitResult& fit) {
  train::CheckpointContents contents;
  contents.step = fit.end.step;
  contents.epoch = fit.end.epoch;
  contents.next_batch_step = fit.end.batch_step;
  contents.seed = static_cast<uint64_t>(job.config.train.seed);
  contents.model_variables = job.program.model_variables;
  contents.slot_variables = job.program.slot_variables;
  contents.program_fingerprint = FingerprintOf(job);
  contents.config = job.config.text;
  return train::SaveCheckpoint(dir, contents, *job.strategy->shared_variables()).status();
}

Status LoadJob(const std::string& path, bool with_slots, Job& job, train::TrainPosition* position) {
  LS_ASSIGN_OR_RETURN(const train::CheckpointInfo info,
                      train::LoadCheckpoint(path, SpecsOf(job.program), {.slots = with_slots},
                                            *job.strategy->shared_variables()));
  if (!info.warning.empty()) {
    fmt::print(stderr, "lockstep: warning: {}\n", info.warning);
  }
  if (position != nullptr) {
    *position = {info.contents.step, info.contents.epoch, info.contents.next_batch_step};
    if (info.contents.program_fingerprint != FingerprintOf(job)) {
      return FailedPrecondition(fmt::format("{} is of a run with {}; this one has {}", info.folder,
                                            info.contents.program_fingerprint, FingerprintOf(job)));
    }
    if (info.contents.seed != static_cast<uint64_t>(job.config.train.seed)) {
      return FailedPrecondition(
          fmt::format("{} was made with the seed {}, this run has {}: the order of samples would "
                      "not go on",
                      info.folder, info.contents.seed, job.config.train.seed));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::cli
