#include "lockstep/exec/cancellation.h"

#include "lockstep/base/macros.h"

namespace lockstep::exec {

void Cancellation::Cancel(const Status& status) {
  LS_CHECK(!status.ok());
  // Callbacks run under the lock, so that RemoveCallback waits for them.
  const MutexLock lock(mu_);
  if (!status_.ok()) {
    return;
  }
  status_ = status;
  cancelled_.store(true, std::memory_order_release);
  for (const auto& [id, callback] : callbacks_) {
    callback(status);
  }
  callbacks_.clear();
}

Status Cancellation::status() const {
  const MutexLock lock(mu_);
  return status_;
}

int64_t Cancellation::AddCallback(Callback callback) {
  const MutexLock lock(mu_);
  if (!status_.ok()) {
    callback(status_);
  } else {
    callbacks_.emplace(next_id_, std::move(callback));
  }
  return next_id_++;
}

void Cancellation::RemoveCallback(int64_t id) {
  const MutexLock lock(mu_);
  callbacks_.erase(id);
}

}  // namespace lockstep::exec
