// PlacedStep: the parts of a placed graph that run in this process, each with a plan on its device.
// Runs them together: the first on the caller's thread, the others on threads of their own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/exec/cancellation.h"
#include "lockstep/exec/plan.h"
#include "lockstep/pass/partition.h"

namespace lockstep::exec {

class StepThreads;

// A part and the device that it runs on.
struct DevicePart {
  pass::Part part;
  Device* device = nullptr;
};

// One run of the parts. The deadline bounds every wait for a transfer.
struct StepRun {
  Rendezvous* rendezvous;
  uint64_t scope;
  uint64_t step;
  Deadline deadline;
  // May be null.
  Cancellation* cancellation = nullptr;
};

class PlacedStep {
  // Only Compile can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // Devices, store and threads must outlive the result. `peers` tells tasks by their devices; null:
  // all parts are here.
  static Result<std::unique_ptr<PlacedStep>> Compile(std::vector<DevicePart> parts,
                                                     VariableStore& store, StepThreads& threads,
                                                     const PeerResolver& peers);

  PlacedStep(Token, std::vector<DevicePart> parts, VariableStore& store, StepThreads& threads,
             PeerResolver peers);
  PlacedStep(const PlacedStep&) = delete;
  PlacedStep& operator=(const PlacedStep&) = delete;
  ~PlacedStep();

  // Feeds and fetches by the positions that the parts give; their types and shapes are checked. One
  // run at a time. Returns when no part runs any more. When a part fails the others are stopped;
  // the error is the first that does not merely follow from another one, with the device and op
  // where it happened.
  Status Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
             const StepRun& run);

  size_t num_parts() const { return parts_.size(); }

  // Of all parts together.
  size_t num_feeds() const;
  size_t num_fetches() const;

  // The plans' listings, each below the name of its device.
  std::string ToString() const;

 private:
  struct PartPlan;
  struct Running;

  Status CompilePart(PartPlan& part);
  Status CheckFeeds(const PartPlan& part, std::span<const Tensor> feeds) const;
  void RunPart(PartPlan& part);

  VariableStore& store_;
  StepThreads& threads_;
  const PeerResolver peers_;
  std::vector<std::unique_ptr<PartPlan>> parts_;
  const std::unique_ptr<Running> running_;
};

}  // namespace lockstep::exec
