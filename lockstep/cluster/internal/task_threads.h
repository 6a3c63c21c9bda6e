// TaskThreads: threads for calls that block. Each piece of work gets an idle thread, or a new one,
// at once, because one may wait for another. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <thread>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::cluster::internal {

class TaskThreads {
 public:
  TaskThreads() = default;
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;
  // Waits for what was started.
  ~TaskThreads();

  // RESOURCE_EXHAUSTED if no thread can be made.
  Status Start(std::function<void()> work) LS_EXCLUDES(mu_);

 private:
  void Loop() LS_EXCLUDES(mu_);

  // As many calls at a time as can wait.
  static constexpr size_t kMaxThreads = 4096;

  Mutex mu_;
  CondVar changed_;
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  size_t idle_ LS_GUARDED_BY(mu_) = 0;
  std::list<std::function<void()>> queue_ LS_GUARDED_BY(mu_);
  std::list<std::thread> threads_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster::internal
