// MultiWorkerSum: replicas over the tasks of a group, as ReplicaMap deals them out; their sums by
// all-reduce, bucket by bucket. All tasks get the same bits and so make the same update.
//
//   auto group = collective::Group::Create(transport, {.replicas = parts, ...}, deadline);
//   auto sum = MultiWorkerSum::Create(std::move(group).value(), program.train.partials, {});
//   LocalReplicas::Create(program, {.replicas = parts, .cross_replica_sum = sum->get()});
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/collective/group.h"
#include "lockstep/strategy/cross_replica_sum.h"
#include "lockstep/strategy/gradient_layout.h"

namespace lockstep::strategy {

struct MultiWorkerOptions {
  size_t bucket_bytes = size_t{25} << 20;
  // How long a task waits for the others in a step. A lost one is noticed much earlier.
  std::chrono::milliseconds timeout{600'000};
};

class MultiWorkerSum : public CrossReplicaSum {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  static Result<std::unique_ptr<MultiWorkerSum>> Create(std::unique_ptr<collective::Group> group,
                                                        const std::vector<Value>& partials,
                                                        const MultiWorkerOptions& options);

  MultiWorkerSum(Token, std::unique_ptr<collective::Group> group, GradientLayout layout,
                 const MultiWorkerOptions& options)
      : group_(std::move(group)), layout_(std::move(layout)), options_(options) {}

  std::string_view strategy() const override { return "multi_worker_mirrored"; }

  data::BatchRange parts() const override;
  Result<std::vector<Tensor>> AllocatePart() override;

  // Errors: those of collective::Group.
  Result<std::vector<Tensor>> Sum(collective::TreeSum& held) override;

  collective::Group& group() { return *group_; }

 private:
  float* BlockOf(const std::vector<Tensor>& part) const;

  std::unique_ptr<collective::Group> group_;
  const GradientLayout layout_;
  const MultiWorkerOptions options_;
};

}  // namespace lockstep::strategy
