#include "lockstep/cli/fingerprints.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

Result<std::string> WorkerFingerprint(const Job& job) {
  LS_ASSIGN_OR_RETURN(const std::string run, RunFingerprint(job));
  nlohmann::json fields = nlohmann::json::parse(run);
  const train::TrainConfig& train = job.config.train;
  const train::ClusterConfig& cluster = job.config.cluster;
  fields["train.steps"] = fmt::format("{}", train.steps);
  fields["train.epochs"] = fmt::format("{}", train.epochs);
  fields["train.eval_batch"] = fmt::format("{}", train.eval_batch);
  fields["train.check_replicas"] = fmt::format("{}", train.check_replicas);
  fields["test samples"] = fmt::format("{}", job.dataset.test.size());
  fields["cluster.algorithm"] = cluster.algorithm;
  fields["cluster.bucket_bytes"] = fmt::format("{}", cluster.bucket_bytes);
  return fields.dump();
}

}  // namespace lockstep::cli
