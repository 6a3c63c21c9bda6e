// WorkerThreads: one thread for each device but the first, which is the caller's. They wait between
// calls.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::strategy {

class WorkerThreads {
 public:
  explicit WorkerThreads(int count);

  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;
  ~WorkerThreads();

  // Calls work(0) on this thread and work(1).. work(count - 1) on the others, and returns when all
  // have: the error of the lowest number, or OK. One call at a time.
  Status Run(const std::function<Status(int)>& work) LS_EXCLUDES(mu_);

 private:
  void Loop(int index);

  Mutex mu_;
  CondVar changed_;
  int64_t round_ LS_GUARDED_BY(mu_) = 0;
  int running_ LS_GUARDED_BY(mu_) = 0;
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  const std::function<Status(int)>* work_ LS_GUARDED_BY(mu_) = nullptr;
  std::vector<Status> statuses_ LS_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::strategy
