// Mutex, MutexLock and CondVar: the standard ones with clang's thread-safety attributes, and waits
// that take a Deadline. All methods are thread-safe.
//
//   MutexLock lock(mu_);
//   while (queue_.empty()) {
//     if (!filled_.WaitUntil(mu_, deadline)) return DeadlineExceeded("nothing came");
//   }
#pragma once

#include <condition_variable>
#include <mutex>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread_annotations.h"

namespace lockstep {

class LS_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() LS_ACQUIRE() { mutex_.lock(); }

  void Unlock() LS_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex for its own lifetime.
class LS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) LS_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  ~MutexLock() LS_RELEASE() { mu_.Unlock(); }

 private:
  Mutex& mu_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mu`, waits for a notification or the deadline, and takes `mu` again. False if the
  // deadline passed. Wake-ups may be spurious: the caller loops on its condition.
  bool WaitUntil(Mutex& mu, const Deadline& deadline) LS_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mutex_, std::adopt_lock);
    bool in_time = true;
    if (deadline.infinite()) {
      condition_.wait(lock);
    } else {
      in_time = condition_.wait_until(lock, deadline.when()) == std::cv_status::no_timeout;
    }
    lock.release();
    return in_time;
  }

  void NotifyOne() { condition_.notify_one(); }

  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace lockstep
