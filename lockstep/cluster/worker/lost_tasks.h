// LostTasks: which tasks are lost, as a server knows it from its views. Thread-safe.
#pragma once

#include <map>
#include <utility>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::cluster {

class LostTasks {
 public:
  // By number, with the reason.
  void Set(std::map<int, Status> lost) LS_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    lost_ = std::move(lost);
  }

  // OK if it is not lost.
  Status Get(int number) const LS_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    const auto found = lost_.find(number);
    return found == lost_.end() ? OkStatus() : found->second;
  }

 private:
  mutable Mutex mu_;
  std::map<int, Status> lost_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
