#include "lockstep/exec/device.h"

#include <fmt/format.h>
#include <omp.h>

namespace lockstep::exec {

Status CheckThreads(int threads) {
  if (threads > omp_get_thread_limit()) {
    return FailedPrecondition(fmt::format("{} threads per device, but OMP_THREAD_LIMIT allows {}",
                                          threads, omp_get_thread_limit()));
  }
  if (threads > 1 && omp_get_max_active_levels() < 1) {
    return FailedPrecondition(
        fmt::format("{} threads per device, but OMP_MAX_ACTIVE_LEVELS=0 allows one", threads));
  }
  return OkStatus();
}

void Device::UseThreads() const {
  // Otherwise OMP_DYNAMIC may give fewer.
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

Result<void*> Device::Arena(size_t bytes) {
  if (arena_ == nullptr || arena_->size() < bytes) {
    // First free, then allocate: both at once would double the peak.
    arena_.reset();
    LS_ASSIGN_OR_RETURN(arena_, Buffer::Allocate(bytes));
  }
  return arena_->data();
}

}  // namespace lockstep::exec
