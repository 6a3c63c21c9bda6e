#include "lockstep/cluster/internal/run_threads.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace lockstep::cluster::internal {

RunThreads::~RunThreads() {
  Stop();
}

void RunThreads::Stop() {
  std::vector<std::unique_ptr<Thread>> threads;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    for (Thread* thread : idle_) {
      thread->idle.store(0, std::memory_order_release);
      progress_.Notify(thread->idle);
    }
    idle_.clear();
    threads.swap(threads_);
  }
  for (const auto& thread : threads) {
    thread->thread.join();
  }
}

Status RunThreads::Start(std::function<void()> work) {
  const MutexLock lock(mu_);
  if (stopping_) {
    return Cancelled("this task stops");
  }
  if (!idle_.empty()) {
    Thread* thread = idle_.back();
    idle_.pop_back();
    thread->work = std::move(work);
    thread->idle.store(0, std::memory_order_release);
    progress_.Notify(thread->idle);
    return OkStatus();
  }
  if (threads_.size() >= kMaxThreads) {
    return ResourceExhausted(fmt::format("more than {} runs at a time", kMaxThreads));
  }
  auto made = std::make_unique<Thread>();
  Thread& thread = *made;
  thread.work = std::move(work);
  try {
    thread.thread = std::thread([this, &thread] { Loop(thread); });
  } catch (const std::system_error& error) {
    return ResourceExhausted(fmt::format("no thread for a run: {}", error.what()));
  }
  threads_.push_back(std::move(made));
  return OkStatus();
}

void RunThreads::Loop(Thread& thread) {
  for (;;) {
    progress_.Await(thread.idle);
    if (!thread.work) {
      return;  // stopped
    }
    std::exchange(thread.work, nullptr)();
    const MutexLock lock(mu_);
    if (stopping_) {
      return;
    }
    thread.idle.store(1, std::memory_order_relaxed);
    idle_.push_back(&thread);
  }
}

}  // namespace lockstep::cluster::internal
