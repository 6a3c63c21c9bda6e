// `lockstep launch`: a cluster of processes on this machine.
//
// Two processes watch over the tasks, so that nobody survives whichever of the two ends, kill -9
// included: this one, the guard, and below it the supervisor (supervisor.h), which does the work.
// The guard passes signals on to the supervisor; when the guard ends, a pipe tells the supervisor,
// which kills everything below it. When the supervisor ends, its tasks get SIGKILL from the kernel
// and whatever they started becomes the guard's to kill.
#pragma once

#include "lockstep/base/result.h"
#include "lockstep/cluster/launch/supervisor.h"

namespace lockstep::cluster {

// The exit code as SuperviseTasks describes it. INVALID_ARGUMENT for options that cannot be. For a
// process with one thread; afterwards it must end, for its signal handling is changed.
Result<int> Launch(const LaunchOptions& options);

}  // namespace lockstep::cluster
