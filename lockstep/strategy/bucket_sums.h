// BucketSums: adds up, over all replicas of a job, what the op CrossReplicaSum marks: in the order
// of the one tree (contract C1), bucket by bucket (GradientLayout). The devices of this process add
// the parts that they execute; where the job has several processes, their group reduces a bucket
// as soon as the last part here has it, while the parts go on with the rest of their step. The
// result does not depend on who executes what, on the size of a bucket or on when it is added.
//
//   sums->Begin();
//   on each device, for each of its parts:
//     LS_TRY(sums->TakeLeaf(device, leaf));
//     ... for each partial, when its tensor is final: sums->Complete(device, part, i, leaf) ...
//   LS_TRY(sums->Finish());  ... use sums->total() ...
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/collective/group.h"
#include "lockstep/collective/tree_sum.h"
#include "lockstep/data/batcher.h"
#include "lockstep/strategy/gradient_layout.h"

namespace lockstep::strategy {

struct BucketSumsOptions {
  size_t bucket_bytes = size_t{25} << 20;
  // Parts of a step in the whole job.
  int64_t parts = 1;
  int devices = 1;
  // Null: all parts are executed here. Otherwise its replicas are the parts; must outlive the sums.
  collective::Group* group = nullptr;
  collective::Algorithm algorithm = collective::Algorithm::kAuto;
  // How long a step may wait for other members. A lost one is known much earlier.
  std::chrono::milliseconds timeout{600'000};
  // Reduce while parts still run. Not with the simulated network's virtual time.
  bool overlap = true;
};

class BucketSums {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // `partials`: what each part computes, in the order in which it does. Errors: those of
  // GradientLayout, and RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<BucketSums>> Create(const std::vector<Value>& partials,
                                                    const BucketSumsOptions& options);

  BucketSums(Token, GradientLayout layout, const BucketSumsOptions& options);
  BucketSums(const BucketSums&) = delete;
  BucketSums& operator=(const BucketSums&) = delete;
  // In the middle of a step: breaks the group.
  ~BucketSums();

  // Those of this process, and of one of its devices.
  data::BatchRange parts() const;
  data::BatchRange parts_of(int device) const;

  const GradientLayout& layout() const { return layout_; }

  // Begins a step, and forgets what an earlier one left unfinished. Errors: RESOURCE_EXHAUSTED.
  Status Begin();

  // Tensors for the partials of one part. Errors: RESOURCE_EXHAUSTED.
  Status TakeLeaf(int device, std::vector<Tensor>& leaf);

  // Partial `index` of a part is in its tensor of the leaf. In any order of partials; parts of a
  // device in their order; from one thread a device.
  void Complete(int device, int64_t part, size_t index, std::vector<Tensor>& leaf);

  // When all parts of this process are complete: waits for the sums. Errors: those of
  // collective::Group; then the group is broken.
  Status Finish();

  // Another process waits for parts that will not come: breaks the group.
  void Abort(const Status& why);

  // The sums, in the order of the partials, until the next Begin.
  std::span<const Tensor> total() const { return total_; }

 private:
  // What one device adds up of one bucket.
  struct DeviceBucket {
    collective::TreeSum sum;
    // Partials of the part at work that are complete.
    size_t complete = 0;
    // Nodes whose memory is with the first device until the next step.
    size_t lent = 0;
  };

  struct BucketState {
    // Those that still work at it.
    int devices = 0;
    // The first device has what all have added up.
    bool joined = false;
  };

  struct Block {
    float* data = nullptr;
    std::shared_ptr<void> owner;
  };

  DeviceBucket& At(int device, size_t bucket) {
    return device_buckets_[static_cast<size_t>(device) * layout_.buckets().size() + bucket];
  }

  Result<Block> AllocateBlock() const;
  // Memory for one more part.
  Status AddSpare(int device);
  // Gives the first device what the others have added up of a bucket that all have completed.
  void Join(size_t bucket);
  // The reduction of a joined bucket into total().
  collective::Call MakeCall(size_t bucket);
  // Starts what may be started.
  void ReduceJoined() LS_REQUIRES(mu_);
  Status WaitForWorks();

  const GradientLayout layout_;
  const BucketSumsOptions options_;
  std::vector<size_t> bucket_of_;  // by partial
  std::vector<DeviceBucket> device_buckets_;
  std::vector<Tensor> total_;
  // Where this process has no parts, sums still need memory.
  bool has_receiver_ = false;
  // Of the buckets that are being reduced.
  std::vector<collective::Work> works_;

  Mutex mu_;
  std::vector<BucketState> working_ LS_GUARDED_BY(mu_);
  // All members reduce the buckets in their order.
  size_t next_ LS_GUARDED_BY(mu_) = 0;
};

}  // namespace lockstep::strategy
