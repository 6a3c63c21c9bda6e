// The deadline of test steps that must end, with room for slow machines.
#pragma once

#include "lockstep/base/deadline.h"

namespace lockstep::cluster {

inline Deadline Soon() {
  return Deadline::After(std::chrono::milliseconds(50'000));
}

}  // namespace lockstep::cluster
