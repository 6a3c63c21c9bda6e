// Device: one execution context of the process, "cpu:0", "cpu:1"... with a fixed number of threads,
// and the memory that its plans share. Only one plan runs on a device at a time.
#pragma once

#include <memory>

#include "lockstep/base/mutex.h"
#include "lockstep/tensor/buffer.h"

namespace lockstep::exec {

// FAILED_PRECONDITION where OpenMP's environment (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS) gives a
// kernel fewer threads than `threads`: oneDNN's would leave out the work of those that are missing.
Status CheckThreads(int threads);

class Device {
 public:
  Device(int index, int threads) : index_(index), threads_(threads) {}

  int index() const { return index_; }

  int threads() const { return threads_; }

  // The calling thread, which is about to compile or run a plan, gets this device's threads.
  void UseThreads() const;

  // Held while a plan runs.
  Mutex& mutex() LS_RETURN_CAPABILITY(mu_) { return mu_; }

  // At least `bytes` of memory, shared by all plans: contents do not outlive a run. The address
  // changes only when it has to grow.
  Result<void*> Arena(size_t bytes) LS_REQUIRES(mu_);

 private:
  const int index_;
  const int threads_;
  Mutex mu_;
  std::shared_ptr<Buffer> arena_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
