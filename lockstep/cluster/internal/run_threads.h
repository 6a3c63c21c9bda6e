// RunThreads: threads on which a task runs its parts of steps. Each piece of work gets an idle
// thread, or a new one, at once, because one may wait for another. An idle thread takes part in
// moving messages for a moment before it sleeps, so that a run which follows the one before soon
// begins without a change of threads. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"
#include "lockstep/net/progress.h"

namespace lockstep::cluster::internal {

class RunThreads {
 public:
  // `progress` must outlive it.
  explicit RunThreads(net::Progress& progress) : progress_(progress) {}

  RunThreads(const RunThreads&) = delete;
  RunThreads& operator=(const RunThreads&) = delete;
  // Stops.
  ~RunThreads();

  // RESOURCE_EXHAUSTED if no thread can be made, CANCELLED after Stop.
  Status Start(std::function<void()> work) LS_EXCLUDES(mu_);

  // Waits for what was started. Not from a thread of these.
  void Stop() LS_EXCLUDES(mu_);

 private:
  struct Thread {
    std::thread thread;
    // 1 while it has nothing to do; then `work` is nobody's but the starter's.
    std::atomic<int32_t> idle{0};
    std::function<void()> work;
  };

  // As many runs at a time as can wait for each other.
  static constexpr size_t kMaxThreads = 1024;

  void Loop(Thread& thread) LS_EXCLUDES(mu_);

  net::Progress& progress_;
  Mutex mu_;
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Thread>> threads_ LS_GUARDED_BY(mu_);
  // The one that became idle last comes first: it may still be awake.
  std::vector<Thread*> idle_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster::internal
