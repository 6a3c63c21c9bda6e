// LocalReplicas: the synchronous strategies as one process sees them. The replicas of a step that
// it executes, all or its member's of a group, are dealt out to its devices in contiguous runs;
// each device executes its replicas one after another; what the op CrossReplicaSum marks is added
// in tree order (BucketSums); the update runs once on the one copy of the variables that the
// devices share. The result depends on the number of replicas, not on the number of devices or
// processes.
//
// With one replica in one process the whole step is one plan, and updates run inside it as soon as
// their gradient exists.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/exec/session.h"
#include "lockstep/strategy/bucket_sums.h"
#include "lockstep/strategy/part_feeds.h"
#include "lockstep/strategy/worker_threads.h"
#include "lockstep/train/program.h"
#include "lockstep/train/step_runner.h"

namespace lockstep::strategy {

struct LocalReplicasOptions {
  // What it is called; empty: one_device or mirrored, as the number of devices has it.
  std::string name = {};
  int devices = 1;
  int threads_per_device = 1;
  // Parts of a step in the whole job: logical replicas times micro-batches. The batchers of all
  // requests must have as many.
  int replicas = 1;
  uint64_t seed = 0;
  // Null: this process executes all replicas. Otherwise those of its member; the group has as many
  // replicas, and must outlive the strategy.
  collective::Group* group = nullptr;
  // Of the group's sums: BucketSumsOptions. They change no result.
  size_t bucket_bytes = BucketSumsOptions().bucket_bytes;
  collective::Algorithm algorithm = BucketSumsOptions().algorithm;
  std::chrono::milliseconds timeout = BucketSumsOptions().timeout;
  bool overlap = true;
};

class LocalReplicas : public train::StepRunner {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // The program must outlive the strategy. Without a group, more devices than replicas are an
  // error; with one, devices may be left without any.
  static Result<std::unique_ptr<LocalReplicas>> Create(const train::Program& program,
                                                       const LocalReplicasOptions& options);

  LocalReplicas(Token, const train::Program& program, const LocalReplicasOptions& options);

  std::string_view name() const override;

  int num_devices() const override { return options_.devices; }

  const std::shared_ptr<exec::VariableStore>& shared_variables() const override { return store_; }

  Status Initialize() override { return session_->Initialize(); }

  Result<train::StepResult> RunStep(const train::StepRequest& request) override;

  // The plan of the step for a batch of this size, described line by line (one replica only).
  Result<std::string> DescribePlan(int64_t batch);

  // Adds the time of each kernel from now on (one replica only); null: no more.
  void set_profile(exec::StepProfile* profile) { profile_ = profile; }

 private:
  // The input buffers and results of one device.
  struct DeviceState {
    exec::Callable* part = nullptr;
    PartFeeds feeds;
    std::vector<Tensor> leaf;
  };

  Status Prepare();
  Result<train::StepResult> RunFused(const train::StepRequest& request);
  Result<train::StepResult> RunParts(const train::StepRequest& request);
  Status RunDevices(const train::StepRequest& request);
  Status RunDevice(const train::StepRequest& request, int device);
  Status SetScalars(const train::StepRequest& request);

  const train::Program& program_;
  const LocalReplicasOptions options_;
  std::shared_ptr<exec::VariableStore> store_;
  std::unique_ptr<exec::Session> session_;
  std::unique_ptr<WorkerThreads> threads_;
  std::vector<DeviceState> devices_;
  exec::Callable* fused_ = nullptr;
  std::unique_ptr<BucketSums> sums_;
  exec::Callable* apply_ = nullptr;
  Tensor global_count_;
  Tensor learning_rate_;
  Tensor step_;
  // Kept between steps, so that a step does not allocate.
  std::vector<Tensor> fused_feeds_;
  std::vector<Tensor> fused_results_;
  std::vector<Tensor> apply_feeds_;
  std::vector<Tensor> apply_results_;
  bool settled_ = false;
  exec::StepProfile* profile_ = nullptr;
};

}  // namespace lockstep::strategy
