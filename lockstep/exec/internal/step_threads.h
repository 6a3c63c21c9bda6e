// StepThreads: threads that run the parts of placed steps. A part may block on another one, so each
// started part gets a thread of its own at once; threads wait for more work between steps.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::exec {

class StepThreads {
 public:
  StepThreads() = default;
  StepThreads(const StepThreads&) = delete;
  StepThreads& operator=(const StepThreads&) = delete;
  // Waits for what was started.
  ~StepThreads();

  // Runs `work` on an idle thread, or on a new one. Thread-safe. An error: no thread can be made.
  Status Start(std::function<void()> work) LS_EXCLUDES(mu_);

 private:
  struct Worker {
    std::thread thread;
    CondVar changed;
    // Empty while idle. Guarded by mu_.
    std::function<void()> work;
  };

  void Loop(Worker& worker) LS_EXCLUDES(mu_);

  Mutex mu_;
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Worker>> workers_ LS_GUARDED_BY(mu_);
  std::vector<Worker*> idle_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
