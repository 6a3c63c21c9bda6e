// Which of several errors of one step counts. When a part fails, the others are stopped, and their
// errors only say so: they must not hide the cause.
#pragma once

#include "lockstep/base/mutex.h"
#include "lockstep/base/status.h"

namespace lockstep::exec {

// CANCELLED and ABORTED follow from an error elsewhere, or from a request to stop.
bool IsDerived(const Status& status);

// What the other parts of a step are stopped with.
Status StoppedBecauseOf(const Status& cause);

// Collects the outcome of the parts of a step. Thread-safe.
class StepStatus {
 public:
  // OK statuses are ignored.
  void Add(const Status& status) LS_EXCLUDES(mu_);

  // The first error that is not derived; without one the first error; OK if there was none.
  Status Get() const LS_EXCLUDES(mu_);

  // The same, and OK from then on.
  Status Take() LS_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  Status status_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
