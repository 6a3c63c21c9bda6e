// Barriers: named meeting points. The first task to arrive says who takes part; when all have
// arrived, all go on, and the name is free again. A barrier fails for everybody who waits at it
// when the earliest deadline passes (naming who is missing) or a participant is lost. Not
// thread-safe: guarded by the coordinator, and callbacks are handed back instead of called.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster {

class Barriers {
 public:
  using Done = std::function<void(const Status&)>;
  using Calls = std::vector<std::function<void()>>;

  // At a time, so that nobody can fill memory with names.
  static constexpr size_t kMaxBarriers = 10'000;
  static constexpr size_t kMaxNameBytes = 1024;

  // A task that arrives twice (its first call was lost) counts once, and its first call is ABORTED.
  void Arrive(const ClusterSpec& cluster, int task, const std::string& name,
              std::vector<int> numbers, const Deadline& deadline, Done done, Calls& calls);

  void Expire(const ClusterSpec& cluster, Deadline::Clock::time_point now, Calls& calls);

  // Fails the barriers in which the task takes part.
  void Fail(int task, const Status& why, Calls& calls);

  void FailAll(const Status& why, Calls& calls);

 private:
  struct Barrier {
    std::vector<int> numbers;
    Deadline deadline;
    std::map<int, Done> arrived;
  };

  static void End(Barrier& barrier, const Status& status, Calls& calls);

  std::map<std::string, Barrier> barriers_;
};

}  // namespace lockstep::cluster
