// LocalSgd: every logical replica trains a copy of the model of its own, on its part of each step's
// samples; every few steps the copies are merged: averaged, weighted by the samples that each has
// seen since the last merge, and all go on from the average. Between merges nothing is
// communicated. (Stich, "Local SGD Converges Fast and Communicates Little", arXiv 1805.09767.)
//
// An outer optimizer may take the step from the last merged model to the average (Douillard et al.,
// "DiLoCo", arXiv 2311.08105), for the trainable variables, with the outer learning rate a and
// momentum m, both element by element:
//
//   d = merged - average;  v = m * v + d;  merged -= a * (nesterov ? d + m * v : v)
//
// With a = 1 and m = 0 the average itself is taken. Optimizer slots stay with their replicas.
//
// The result is a function of the number of replicas, not of the number of processes or devices:
// averages are added up in the order of the one tree.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/exec/session.h"
#include "lockstep/strategy/bucket_sums.h"
#include "lockstep/strategy/part_feeds.h"
#include "lockstep/strategy/worker_threads.h"
#include "lockstep/train/program.h"
#include "lockstep/train/step_runner.h"
#include "lockstep/train/workers.h"

namespace lockstep::strategy {

struct LocalSgdOptions {
  int devices = 1;
  int threads_per_device = 1;
  // Copies of the model, in the whole job.
  int replicas = 1;
  uint64_t seed = 0;
  // Merges after every step whose number, counted from 1, is a multiple of it; at least 1.
  int64_t merge_steps = 16;
  double outer_learning_rate = 1;
  double outer_momentum = 0;
  bool outer_nesterov = false;
  // Both null: this process has all replicas. Otherwise those of its member, and the members as the
  // trainer sees them. Must outlive the strategy.
  collective::Group* group = nullptr;
  train::Workers* workers = nullptr;
  // Of the averages: BucketSumsOptions. They change no result.
  size_t bucket_bytes = BucketSumsOptions().bucket_bytes;
  collective::Algorithm algorithm = BucketSumsOptions().algorithm;
  std::chrono::milliseconds timeout = BucketSumsOptions().timeout;
  bool overlap = true;
};

class LocalSgd : public train::StepRunner {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // The program must outlive the strategy.
  static Result<std::unique_ptr<LocalSgd>> Create(const train::Program& program,
                                                  const LocalSgdOptions& options);

  LocalSgd(Token, const train::Program& program, const LocalSgdOptions& options);

  std::string_view name() const override { return "local_sgd"; }

  int num_devices() const override { return options_.devices; }

  // The merged model; slots are the averages over the replicas, as of the last call of Merge.
  const std::shared_ptr<exec::VariableStore>& shared_variables() const override { return merged_; }

  Status Initialize() override { return initializer_->Initialize(); }

  // Where the step ends with a merge, the result is that of all steps since the last one; otherwise
  // it has no samples.
  Result<train::StepResult> RunStep(const train::StepRequest& request) override;

  // Merges what was learnt since the last merge.
  Result<train::StepResult> Merge() override;

  std::optional<int64_t> sync_rounds() const override { return rounds_; }

 private:
  // A logical replica: its copy of the variables, in the order of the device's store, and what it
  // has seen since the last merge.
  struct Replica {
    std::vector<std::shared_ptr<Buffer>> variables;
    int64_t samples = 0;
    int64_t correct = 0;
    double loss = 0;  // summed over the samples
  };

  // Its variables are those of the replica at work.
  struct Device {
    std::shared_ptr<exec::VariableStore> store;
    std::unique_ptr<exec::Session> session;
    exec::Callable* step = nullptr;
    PartFeeds feeds;
    std::vector<Tensor> results;
  };

  Status Prepare();
  // Gives every replica of a device the merged variables, in the layouts that its plan settles on.
  Status Begin(const train::StepRequest& request, int device);
  Status RunDevice(const train::StepRequest& request, int device);
  Result<int64_t> LoadFeeds(const train::StepRequest& request, int part, Device& device,
                            std::vector<Tensor>& feeds) const;
  // Lets the device's store hold the variables of the replica.
  static void Enter(const Device& device, const Replica& replica);
  // What all replicas of the job have seen, which sets their weights.
  Result<train::StepResult> CountSamples();
  // The averages of the named variables over all replicas.
  Status Average(BucketSums& sums, const std::vector<std::string>& names);
  Result<train::StepResult> MergeModel();
  Status TakeOuterStep(const std::string& name, const Tensor& average);
  Status MergeSlots();

  const train::Program& program_;
  const LocalSgdOptions options_;
  const std::shared_ptr<exec::VariableStore> merged_;
  std::unique_ptr<exec::Session> initializer_;
  std::unique_ptr<WorkerThreads> threads_;
  std::vector<Device> devices_;
  // Of this process, and the number of the first.
  std::vector<Replica> replicas_;
  int64_t first_replica_ = 0;
  std::unique_ptr<BucketSums> model_sums_;
  std::unique_ptr<BucketSums> slot_sums_;  // null: no slots
  std::vector<std::string> trainable_;     // sorted
  // Momentum of the outer optimizer, by trainable variable.
  std::map<std::string, Tensor, std::less<>> velocities_;
  // By replica of the job, as of the merge at work.
  std::vector<float> weights_;
  int64_t rounds_ = 0;
  bool begun_ = false;
  bool slots_merged_ = true;
};

}  // namespace lockstep::strategy
