// GroupWorkers: the workers of a job as the members of a group of collective calls.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/collective/group.h"
#include "lockstep/train/workers.h"

namespace lockstep::strategy {

class GroupWorkers : public train::Workers {
 public:
  // The group must outlive it. `timeout`: how long a call waits for the others; a lost one is known
  // much earlier.
  GroupWorkers(collective::Group& group, std::chrono::milliseconds timeout)
      : group_(group), timeout_(timeout) {}

  int self() const override { return group_.self(); }

  int count() const override { return group_.members(); }

  std::string name(int worker) const override { return group_.member_name(worker); }

  // Errors: those of collective::Group.
  Result<bool> Any(bool mine) override;
  Status AllGather(std::string_view name, std::span<int64_t> values,
                   std::span<const int64_t> counts) override;
  Status Broadcast(std::string_view name, const Tensor& values) override;

 private:
  collective::Group& group_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace lockstep::strategy
