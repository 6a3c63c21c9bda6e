#include "lockstep/cluster/internal/task_threads.h"

#include <fmt/format.h>

#include <system_error>

namespace lockstep::cluster::internal {

TaskThreads::~TaskThreads() {
  std::list<std::thread> threads;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Status TaskThreads::Start(std::function<void()> work) {
  const MutexLock lock(mu_);
  if (queue_.size() >= idle_) {
    if (threads_.size() >= kMaxThreads) {
      return ResourceExhausted(fmt::format("more than {} calls at a time", kMaxThreads));
    }
    try {
      threads_.emplace_back([this] { Loop(); });
    } catch (const std::system_error& error) {
      return ResourceExhausted(fmt::format("no thread for a call: {}", error.what()));
    }
  }
  queue_.push_back(std::move(work));
  changed_.NotifyOne();
  return OkStatus();
}

void TaskThreads::Loop() {
  for (;;) {
    std::function<void()> work;
    {
      const MutexLock lock(mu_);
      ++idle_;
      while (queue_.empty() && !stopping_) {
        changed_.WaitUntil(mu_, Deadline::Infinite());
      }
      --idle_;
      if (queue_.empty()) {
        return;
      }
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace lockstep::cluster::internal
