#include "lockstep/cli/fingerprints.h"

#include <algorithm>

#include "lockstep/train/fingerprint.h"

namespace lockstep::cli {
namespace {

train::RunFacts ModelFacts(const Job& job) {
  train::RunFacts facts;
  facts.sample_shape = job.dataset.sample_shape;
  facts.num_classes = std::max(job.config.model.num_classes, job.dataset.num_classes);
  if (job.config.data.source != "synthetic") {
    facts.data_sha256 = "not read";
  }
  return facts;
}

}  // namespace

std::string ModelFingerprint(const Job& job) {
  return train::MakeFingerprint(job.config, ModelFacts(job));
}

Result<std::string> RunFingerprint(const Job& job) {
  const train::Config& config = job.config;
  train::RunFacts facts = ModelFacts(job);
  facts.train_samples = job.dataset.train.size();
  if (config.data.source != "synthetic") {
    LS_ASSIGN_OR_RETURN(facts.data_sha256, data::ContentSha256(job.dataset.train));
  }
  LS_ASSIGN_OR_RETURN(
      facts.planned_steps,
      train::PlannedSteps(config.train.epochs, config.train.steps,
                          data::StepsPerEpoch(facts.train_samples, config.train.global_batch)));
  facts.threads_per_device = job.threads_per_device;
  facts.local_sgd = job.strategy_name == kLocalSgd;
  return train::MakeFingerprint(config, facts);
}

}  // namespace lockstep::cli
