// StepRunner: what executes the training steps of a program: a strategy. The trainer does not know
// how many devices or processes there are.
#pragma once

#include <cstdint>
#include <memory>
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
  // Mean over the samples of the step.
  double loss = 0;
  int64_t correct = 0;
  int64_t samples = 0;
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
};

}  // namespace lockstep::train
