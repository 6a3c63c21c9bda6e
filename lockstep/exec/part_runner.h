// PartRunner: what a task does with parts of placed graphs that others register with it. Parts are
// parsed as hostile input, compiled for the task's devices, and run by handle; variables live in
// named containers that outlive graphs. Knows nothing of how requests come or tensors travel.
// Thread-safe: several steps, of one handle or several, may run at the same time.
//
//   LS_ASSIGN_OR_RETURN(auto runner, PartRunner::Create({.task = "/job:ps/replica:0/task:0"}));
//   LS_ASSIGN_OR_RETURN(const uint64_t handle, runner->Register({.parts = {...}}, peers));
//   Status status = runner->Run(handle, {step, info, &rendezvous, deadline}, feeds, fetches);
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/exec/placed_step.h"
#include "lockstep/pass/device_set.h"
#include "lockstep/pass/serialize_part.h"

namespace lockstep::exec {

struct PartRunnerOptions {
  // "/job:worker/replica:0/task:1".
  std::string task;
  int devices = 1;
  int threads_per_device = 1;
  pass::PartLimits limits = {};
};

struct PartRegistration {
  struct PartBytes {
    // One of the task's devices.
    std::string device;
    // As pass::SerializePart makes them.
    std::string graph;
  };

  std::vector<PartBytes> parts;
  // Where the variables are.
  std::string container;
  // The graph's number in transfer keys, the same for all its tasks.
  uint64_t scope = 0;
};

// One run of registered parts.
struct PartRun {
  uint64_t step;
  StepInfo info;
  Rendezvous* rendezvous;
  Deadline deadline;
  // May be null.
  Cancellation* cancellation = nullptr;
};

class StepThreads;

class PartRunner {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // INVALID_ARGUMENT: a malformed task name, or numbers out of range.
  static Result<std::unique_ptr<PartRunner>> Create(const PartRunnerOptions& options);

  PartRunner(Token, const PartRunnerOptions& options);
  PartRunner(const PartRunner&) = delete;
  PartRunner& operator=(const PartRunner&) = delete;
  // No step may be running.
  ~PartRunner();

  // Full names of the task's devices.
  std::vector<std::string> devices() const;

  // Parses and compiles. `peers` gives the number of the task that has a device, kThisTask for this
  // one; an error of it is returned. Errors: those of ParsePart; an unknown device; an op that
  // cannot be compiled.
  Result<uint64_t> Register(const PartRegistration& registration, PeerResolver peers)
      LS_EXCLUDES(mu_);

  // Steps that run finish. NOT_FOUND: no such handle.
  Status Deregister(uint64_t handle) LS_EXCLUDES(mu_);

  // Feeds and fetches are those of the parts, in the order of registration, one part behind the
  // other. Blocks until the parts have run; transfers of the step are not cleaned up, because parts
  // of other handles may meet in it. ABORTED: no such handle, as after a restart.
  Status Run(uint64_t handle, const PartRun& run, std::span<const Tensor> feeds,
             std::span<Tensor> fetches) LS_EXCLUDES(mu_);

  // Made if there is none. Variables may be read and written while no step that uses them runs.
  std::shared_ptr<VariableStore> Container(std::string_view name) LS_EXCLUDES(mu_);

  // Forgets containers, all of them if `names` is empty. Handles that were registered before keep
  // their variables until they are deregistered.
  void Reset(std::span<const std::string> names) LS_EXCLUDES(mu_);

 private:
  struct Registered;

  Result<std::unique_ptr<PlacedStep>> Compile(const Registered& registered) const;
  Result<std::vector<DevicePart>> Parse(const PartRegistration& registration) const;

  const PartRunnerOptions options_;
  std::vector<std::unique_ptr<Device>> devices_;
  const std::unique_ptr<StepThreads> threads_;
  Mutex mu_;
  uint64_t next_handle_ LS_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<Registered>> registered_ LS_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<VariableStore>, std::less<>> containers_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
