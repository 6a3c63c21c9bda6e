// Which samples a replica gets: a pure function of (seed, epoch, step, replica of R, global batch),
// whoever executes the replica (contract C1). Every sample comes exactly once per epoch.
//
// Vocabulary. The order of an epoch is a permutation of the samples: a Fisher-Yates shuffle whose
// random numbers are the Philox stream (seed, "batcher/order", epoch), done once per epoch; a
// Feistel permutation would need no memory, but several Philox calls for every sample of every
// step. Step s of the epoch takes positions [s * B, (s + 1) * B) of the order, B being the global
// batch; the last step keeps what is left, however short. Replica r of R takes the contiguous part
// [n * r / R, n * (r + 1) / R) of the n samples of a step: sizes differ by at most one and may be
// zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// A range of positions.
struct BatchRange {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const BatchRange&, const BatchRange&) = default;
};

// ceil(samples / global_batch); global_batch must be positive.
int64_t StepsPerEpoch(int64_t samples, int64_t global_batch);

// The positions of step `step` in [0, StepsPerEpoch).
BatchRange StepRange(int64_t samples, int64_t global_batch, int64_t step);

// The part of a step's positions that replica `replica` of `replicas` takes.
BatchRange ReplicaRange(BatchRange step, int replica, int replicas);

// Fills `order` with the permutation of [0, order.size()) of an epoch.
void ShuffleOrder(uint64_t seed, int64_t epoch, std::span<uint32_t> order);

struct BatcherOptions {
  uint64_t seed = 0;
  // Samples of one step over all replicas, at least 1.
  int64_t global_batch = 1;
  // R, at least 1.
  int replicas = 1;
  // Without it every epoch has the stored order.
  bool shuffle = true;
};

// Serves the batches of one split, which must outlive it. StartEpoch must not run together with
// anything else; the const methods are thread-safe and allocate nothing.
class Batcher {
 public:
  // Starts in epoch 0.
  static Result<Batcher> Create(const Split& split, const BatcherOptions& options);

  void StartEpoch(int64_t epoch);

  int64_t steps_per_epoch() const { return StepsPerEpoch(split_->size(), options_.global_batch); }

  // Samples of a step in [0, steps_per_epoch()): over all replicas, and of one.
  int64_t step_samples(int64_t step) const { return Range(step).count; }

  int64_t replica_samples(int64_t step, int replica) const {
    return ReplicaRange(Range(step), replica, options_.replicas).count;
  }

  // The most samples that a replica gets in any step: what its buffers must hold.
  int64_t max_replica_samples() const;

  // The samples of a replica in a step of the current epoch.
  std::span<const uint32_t> Indices(int64_t step, int replica) const;

  // Copies them (Split::Gather) to the beginning of the buffers. Returns their number, or
  // INVALID_ARGUMENT if the step or replica does not exist or a buffer is too small.
  Result<int64_t> Fill(int64_t step, int replica, std::span<float> features,
                       std::span<int32_t> labels) const;

 private:
  Batcher(const Split& split, const BatcherOptions& options);

  BatchRange Range(int64_t step) const {
    return StepRange(split_->size(), options_.global_batch, step);
  }

  const Split* split_;
  BatcherOptions options_;
  std::vector<uint32_t> order_;
};

}  // namespace lockstep::data
