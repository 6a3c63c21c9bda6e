// StepRunner: what executes the training steps of a program: a strategy. The trainer does not know
// how many devices or processes there are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/data/batcher.h"
#include "lockstep/exec/variable_store.h"

namespace lockstep::train {

struct StepRequest {
  // Its replicas are the parts of a step that are computed one by one.
  const data::Batcher& batcher;
  // Step within the batcher's epoch.
  int64_t batch_step = 0;
  // Steps done before this one in the life of the parameters: random ops depend on it.
  int64_t global_step = 0;
  float learning_rate = 0;
};

struct StepResult {
  // Mean over the samples.
  double loss = 0;
  int64_t correct = 0;
  // Of the step over all workers. Strategies that do not communicate in every step say what there
  // was since the last one that did, and nothing (0 samples) in between.
  int64_t samples = 0;
  // All workers have communicated in this step, and may agree on something.
  bool together = true;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  virtual std::string_view name() const = 0;
  virtual int num_devices() const = 0;
  // The variables of this process, for evaluation and checkpoints between steps.
  virtual const std::shared_ptr<exec::VariableStore>& shared_variables() const = 0;
  // Gives every variable its initial value.
  virtual Status Initialize() = 0;
  virtual Result<StepResult> RunStep(const StepRequest& request) = 0;

  // Makes shared_variables() what the job has learnt, on all workers, where a step does not; called
  // by all of them, before they look at it. Returns what no step's result has counted yet.
  virtual Result<StepResult> Merge() { return StepResult(); }

  // How often that, or a step, has merged what workers had learnt apart; nothing for strategies
  // that keep them together.
  virtual std::optional<int64_t> sync_rounds() const { return std::nullopt; }
};

}  // namespace lockstep::train
