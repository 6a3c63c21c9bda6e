#include "lockstep/collective/internal/call_queue.h"

#include <utility>

namespace lockstep::collective::internal {

std::shared_ptr<CallQueue::Entry> CallQueue::Add(Call call, const Deadline& deadline, Done done,
                                                 bool in_background) {
  auto entry = std::make_shared<Entry>();
  entry->call = std::move(call);
  entry->deadline = deadline;
  entry->done = std::move(done);
  MutexLock lock(mu_);
  entries_.push_back(entry);
  if (in_background) {
    if (!thread_.joinable() && !closed_) {
      thread_ = std::jthread([this] { ThreadMain(); });
    }
    changed_.NotifyAll();
  }
  return entry;
}

void CallQueue::RunFirst() {
  const std::shared_ptr<Entry> entry = std::move(entries_.front());
  entries_.pop_front();
  running_ = true;
  const bool closed = closed_;
  mu_.Unlock();
  const Status status =
      closed ? Cancelled("the group was closed") : execute_(entry->call, entry->deadline);
  if (entry->done != nullptr) {
    entry->done(status);
  }
  mu_.Lock();
  running_ = false;
  entry->status = status;
  entry->ended = true;
  changed_.NotifyAll();
}

Status CallQueue::Wait(const Entry& entry) {
  MutexLock lock(mu_);
  while (!entry.ended) {
    if (running_) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    } else {
      RunFirst();
    }
  }
  return entry.status;
}

bool CallQueue::Ended(const Entry& entry) {
  MutexLock lock(mu_);
  return entry.ended;
}

void CallQueue::ThreadMain() {
  MutexLock lock(mu_);
  while (!closed_) {
    if (running_ || entries_.empty()) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    } else {
      RunFirst();
    }
  }
}

void CallQueue::Close() {
  std::jthread thread;
  {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.NotifyAll();
    while (running_ || !entries_.empty()) {
      if (running_) {
        changed_.WaitUntil(mu_, Deadline::Infinite());
      } else {
        RunFirst();
      }
    }
    thread = std::move(thread_);
  }
}

}  // namespace lockstep::collective::internal
