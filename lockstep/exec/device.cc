#include "lockstep/exec/device.h"

namespace lockstep::exec {

Result<void*> Device::Arena(size_t bytes) {
  if (arena_ == nullptr || arena_->size() < bytes) {
    // First free, then allocate: both at once would double the peak.
    arena_.reset();
    LS_ASSIGN_OR_RETURN(arena_, Buffer::Allocate(bytes));
  }
  return arena_->data();
}

}  // namespace lockstep::exec
