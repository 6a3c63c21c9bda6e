#include "lockstep/strategy/group_workers.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep::strategy {

Result<bool> GroupWorkers::Any(bool mine) {
  std::vector<int64_t> votes(static_cast<size_t>(count()), 0);
  votes[static_cast<size_t>(self())] = mine ? 1 : 0;
  LS_TRY(AllGather("any", votes, std::vector<int64_t>(votes.size(), 1)));
  return std::any_of(votes.begin(), votes.end(), [](int64_t vote) { return vote != 0; });
}

Status GroupWorkers::AllGather(std::string_view name, std::span<int64_t> values,
                               std::span<const int64_t> counts) {
  const auto own = counts.begin() + self();
  const int64_t* const input = values.data() + std::accumulate(counts.begin(), own, int64_t{0});
  return group_.Run(collective::AllGatherCall({.name = std::string(name),
                                               .dtype = DType::kInt64,
                                               .shape = Shape{static_cast<int64_t>(values.size())},
                                               .counts = {counts.begin(), counts.end()}},
                                              input, values.data()),
                    group_.After(timeout_));
}

Status GroupWorkers::Broadcast(std::string_view name, const Tensor& values) {
  return group_.Run(
      collective::BroadcastCall(
          {.name = std::string(name), .dtype = values.dtype(), .shape = values.shape()},
          const_cast<void*>(values.data())),
      group_.After(timeout_));
}

}  // namespace lockstep::strategy
