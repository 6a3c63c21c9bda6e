#include "lockstep/cluster/coordinator/barriers.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/coordinator/membership_view.h"

namespace lockstep::cluster {

void Barriers::End(Barrier& barrier, const Status& status, Calls& calls) {
  for (auto& [task, done] : barrier.arrived) {
    calls.push_back([done = std::move(done), status] { done(status); });
  }
}

void Barriers::Arrive(const ClusterSpec& cluster, int task, const std::string& name,
                      std::vector<int> numbers, const Deadline& deadline, Done done, Calls& calls) {
  const auto refuse = [&](Status status) {
    calls.push_back([done, status = std::move(status)] { done(status); });
  };
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (name.empty() || name.size() > kMaxNameBytes) {
    refuse(InvalidArgument(
        fmt::format("a barrier's name has 1 to {} bytes, found {}", kMaxNameBytes, name.size())));
    return;
  }
  if (!std::binary_search(numbers.begin(), numbers.end(), task)) {
    refuse(InvalidArgument(fmt::format("{} is at the barrier {} and does not take part in it",
                                       ListTasks(cluster, {task}), Quoted(name))));
    return;
  }
  auto found = barriers_.find(name);
  if (found == barriers_.end()) {
    if (barriers_.size() >= kMaxBarriers) {
      refuse(ResourceExhausted(fmt::format("more than {} barriers at a time", kMaxBarriers)));
      return;
    }
    found = barriers_.emplace(name, Barrier{std::move(numbers), deadline, {}}).first;
  } else if (found->second.numbers != numbers) {
    refuse(InvalidArgument(fmt::format("the barrier {} is one of {}; {} says that it is one of {}",
                                       Quoted(name), ListTasks(cluster, found->second.numbers),
                                       ListTasks(cluster, {task}), ListTasks(cluster, numbers))));
    return;
  }
  Barrier& barrier = found->second;
  barrier.deadline = std::min(barrier.deadline, deadline);
  Done& mine = barrier.arrived[task];
  if (mine) {
    calls.push_back(
        [earlier = std::move(mine)] { earlier(Aborted("this task came to the barrier again")); });
  }
  mine = std::move(done);
  if (barrier.arrived.size() == barrier.numbers.size()) {
    End(barrier, OkStatus(), calls);
    barriers_.erase(found);
  }
}

void Barriers::Expire(const ClusterSpec& cluster, Deadline::Clock::time_point now, Calls& calls) {
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    Barrier& barrier = it->second;
    if (barrier.deadline.when() > now) {
      ++it;
      continue;
    }
    std::vector<int> missing;
    for (const int number : barrier.numbers) {
      if (barrier.arrived.find(number) == barrier.arrived.end()) {
        missing.push_back(number);
      }
    }
    End(barrier,
        DeadlineExceeded(fmt::format("the barrier {} still waits for {}", Quoted(it->first),
                                     ListTasks(cluster, missing))),
        calls);
    it = barriers_.erase(it);
  }
}

void Barriers::Fail(int task, const Status& why, Calls& calls) {
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    const std::vector<int>& numbers = it->second.numbers;
    if (std::binary_search(numbers.begin(), numbers.end(), task)) {
      End(it->second, why.With(fmt::format("barrier {}", Quoted(it->first))), calls);
      it = barriers_.erase(it);
    } else {
      ++it;
    }
  }
}

void Barriers::FailAll(const Status& why, Calls& calls) {
  for (auto& [name, barrier] : barriers_) {
    End(barrier, why.With(fmt::format("barrier {}", Quoted(name))), calls);
  }
  barriers_.clear();
}

}  // namespace lockstep::cluster
