// Training in several processes on this machine: the program starts itself once for each worker.
#pragma once

#include "lockstep/cli/train.h"
#include "lockstep/cli/train_place.h"

namespace lockstep::cli {

// Checks what can be checked once for all of them, and runs them to their end. The first writes to
// this process's output, the others' lines get a prefix. For a process with one thread.
Outcome LaunchTraining(const TrainFlags& flags, const TrainPlace& place);

}  // namespace lockstep::cli
