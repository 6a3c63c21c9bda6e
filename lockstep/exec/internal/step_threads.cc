#include "lockstep/exec/internal/step_threads.h"

#include <fmt/format.h>

#include <system_error>

namespace lockstep::exec {

StepThreads::~StepThreads() {
  std::vector<std::unique_ptr<Worker>> workers;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    for (const auto& worker : workers_) {
      worker->changed.NotifyOne();
    }
    workers.swap(workers_);
  }
  for (const auto& worker : workers) {
    worker->thread.join();
  }
}

Status StepThreads::Start(std::function<void()> work) {
  const MutexLock lock(mu_);
  LS_CHECK(!stopping_);
  if (!idle_.empty()) {
    Worker* worker = idle_.back();
    idle_.pop_back();
    worker->work = std::move(work);
    worker->changed.NotifyOne();
    return OkStatus();
  }
  auto worker = std::make_unique<Worker>();
  Worker& made = *worker;
  made.work = std::move(work);
  try {
    made.thread = std::thread([this, &made] { Loop(made); });
  } catch (const std::system_error& error) {
    return ResourceExhausted(
        fmt::format("no thread can be started for a part of the step: {}", error.what()));
  }
  workers_.push_back(std::move(worker));
  return OkStatus();
}

void StepThreads::Loop(Worker& worker) {
  while (true) {
    std::function<void()> work;
    {
      const MutexLock lock(mu_);
      while (!worker.work && !stopping_) {
        worker.changed.WaitUntil(mu_, Deadline::Infinite());
      }
      if (!worker.work) {
        return;
      }
      work = std::move(worker.work);
      worker.work = nullptr;
    }
    work();
    const MutexLock lock(mu_);
    idle_.push_back(&worker);
  }
}

}  // namespace lockstep::exec
