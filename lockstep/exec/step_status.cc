#include "lockstep/exec/step_status.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::exec {

bool IsDerived(const Status& status) {
  return status.code() == StatusCode::kCancelled || status.code() == StatusCode::kAborted;
}

Status StoppedBecauseOf(const Status& cause) {
  return IsDerived(cause) ? cause
                          : Cancelled(fmt::format("stopped, because elsewhere in the step: {}",
                                                  cause.ToString()));
}

void StepStatus::Add(const Status& status) {
  const MutexLock lock(mu_);
  if (!status.ok() && (status_.ok() || (IsDerived(status_) && !IsDerived(status)))) {
    status_ = status;
  }
}

Status StepStatus::Get() const {
  const MutexLock lock(mu_);
  return status_;
}

Status StepStatus::Take() {
  const MutexLock lock(mu_);
  return std::exchange(status_, OkStatus());
}

}  // namespace lockstep::exec
