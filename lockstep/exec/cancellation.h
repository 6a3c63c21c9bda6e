// Cancellation: a request to stop a step, from outside. Thread-safe.
//
//   Cancellation cancellation;
//   std::thread client([&] { ...; cancellation.Cancel(Cancelled("the client went away")); });
//   runner.Run(..., &cancellation);
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::exec {

class Cancellation {
 public:
  using Callback = std::function<void(const Status& status)>;

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // `status` is an error; the first call counts. Calls the callbacks.
  void Cancel(const Status& status) LS_EXCLUDES(mu_);

  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK until cancelled.
  Status status() const LS_EXCLUDES(mu_);

  // Calls `callback` when cancelled, at once if that has happened. It must not come back to this
  // object.
  int64_t AddCallback(Callback callback) LS_EXCLUDES(mu_);

  // Afterwards the callback does not run and will not.
  void RemoveCallback(int64_t id) LS_EXCLUDES(mu_);

 private:
  std::atomic<bool> cancelled_ = false;
  mutable Mutex mu_;
  Status status_ LS_GUARDED_BY(mu_);
  int64_t next_id_ LS_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Callback> callbacks_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
