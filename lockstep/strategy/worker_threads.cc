#include "lockstep/strategy/worker_threads.h"

namespace lockstep::strategy {

WorkerThreads::WorkerThreads(int count) : statuses_(static_cast<size_t>(count)) {
  for (int i = 1; i < count; ++i) {
    threads_.emplace_back([this, i] { Loop(i); });
  }
}

WorkerThreads::~WorkerThreads() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerThreads::Loop(int index) {
  int64_t seen = 0;
  while (true) {
    const std::function<Status(int)>* work = nullptr;
    {
      const MutexLock lock(mu_);
      while (round_ == seen && !stopping_) {
        changed_.WaitUntil(mu_, Deadline::Infinite());
      }
      if (stopping_) {
        return;
      }
      seen = round_;
      work = work_;
    }
    Status status = (*work)(index);
    const MutexLock lock(mu_);
    statuses_[static_cast<size_t>(index)] = std::move(status);
    if (--running_ == 0) {
      changed_.NotifyAll();
    }
  }
}

Status WorkerThreads::Run(const std::function<Status(int)>& work) {
  {
    const MutexLock lock(mu_);
    work_ = &work;
    running_ = static_cast<int>(threads_.size());
    ++round_;
    changed_.NotifyAll();
  }
  Status first = work(0);
  const MutexLock lock(mu_);
  while (running_ > 0) {
    changed_.WaitUntil(mu_, Deadline::Infinite());
  }
  for (size_t i = 1; i < statuses_.size() && first.ok(); ++i) {
    first = statuses_[i];
  }
  return first;
}

}  // namespace lockstep::strategy
