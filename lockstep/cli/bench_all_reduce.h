// lockstep bench allreduce: sums of float32 values among processes of this machine, in place,
// beside processes that add on plain shared memory, and beside Gloo and Open MPI where they are
// installed.
#pragma once

#include "lockstep/cli/command.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// Adds the command to `bench`; what it did goes to `outcome`, which must outlive the app.
void AddBenchAllReduce(CLI::App& bench, Outcome& outcome);

}  // namespace lockstep::cli
