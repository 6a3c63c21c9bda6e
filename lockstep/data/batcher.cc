#include "lockstep/data/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/base/philox.h"

namespace lockstep::data {

int64_t StepsPerEpoch(int64_t samples, int64_t global_batch) {
  LS_CHECK(samples >= 0 && global_batch >= 1);
  return samples / global_batch + (samples % global_batch != 0 ? 1 : 0);
}

BatchRange StepRange(int64_t samples, int64_t global_batch, int64_t step) {
  LS_CHECK(step >= 0 && step < StepsPerEpoch(samples, global_batch));
  const int64_t begin = step * global_batch;
  return {begin, std::min(global_batch, samples - begin)};
}

BatchRange ReplicaRange(BatchRange step, int replica, int replicas) {
  LS_CHECK(replica >= 0 && replica < replicas);
  const int64_t begin = step.count * replica / replicas;
  const int64_t end = step.count * (int64_t{replica} + 1) / replicas;
  return {step.begin + begin, end - begin};
}

void ShuffleOrder(uint64_t seed, int64_t epoch, std::span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0U);
  const PhiloxStream stream(seed, "batcher/order", epoch);
  PhiloxBlock block{};
  uint64_t used = 0;
  for (size_t left = order.size(); left > 1; --left, ++used) {
    if (used % block.size() == 0) {
      block = stream.Block(used / block.size());
    }
    const uint32_t word = block[used % block.size()];
    std::swap(order[left - 1], order[UniformBelow(word, static_cast<uint32_t>(left))]);
  }
}

Batcher::Batcher(const Split& split, const BatcherOptions& options)
    : split_(&split), options_(options), order_(static_cast<size_t>(split.size())) {
  std::iota(order_.begin(), order_.end(), 0U);
}

Result<Batcher> Batcher::Create(const Split& split, const BatcherOptions& options) {
  if (split.size() == 0) {
    return InvalidArgument("batches: the data set has no samples, expected at least 1");
  }
  if (options.global_batch < 1) {
    return InvalidArgument(
        fmt::format("batches: global batch {}, allowed are 1 and more", options.global_batch));
  }
  if (options.replicas < 1) {
    return InvalidArgument(
        fmt::format("batches: {} replicas, allowed are 1 and more", options.replicas));
  }
  BatcherOptions bounded = options;
  // A larger batch is the whole set; this also keeps products of counts and replicas small.
  bounded.global_batch = std::min(options.global_batch, split.size());
  Batcher batcher(split, bounded);
  batcher.StartEpoch(0);
  return batcher;
}

void Batcher::StartEpoch(int64_t epoch) {
  if (options_.shuffle) {
    ShuffleOrder(options_.seed, epoch, order_);
  }
}

int64_t Batcher::max_replica_samples() const {
  const int64_t most = std::min(options_.global_batch, split_->size());
  return (most + options_.replicas - 1) / options_.replicas;
}

std::span<const uint32_t> Batcher::Indices(int64_t step, int replica) const {
  const BatchRange range = ReplicaRange(Range(step), replica, options_.replicas);
  return std::span<const uint32_t>(order_).subspan(static_cast<size_t>(range.begin),
                                                   static_cast<size_t>(range.count));
}

Result<int64_t> Batcher::Fill(int64_t step, int replica, std::span<float> features,
                              std::span<int32_t> labels) const {
  if (step < 0 || step >= steps_per_epoch() || replica < 0 || replica >= options_.replicas) {
    return InvalidArgument(
        fmt::format("batches: step {} of replica {}, allowed are 0 to {} and 0 to {}", step,
                    replica, steps_per_epoch() - 1, options_.replicas - 1));
  }
  const std::span<const uint32_t> indices = Indices(step, replica);
  const size_t elements = indices.size() * static_cast<size_t>(split_->sample_elements());
  if (features.size() < elements || labels.size() < indices.size()) {
    return InvalidArgument(
        fmt::format("batches: buffers of {} features and {} labels, step {} of replica {} needs {} "
                    "and {}",
                    features.size(), labels.size(), step, replica, elements, indices.size()));
  }
  split_->Gather(indices, features.data(), labels.data());
  return static_cast<int64_t>(indices.size());
}

}  // namespace lockstep::data
