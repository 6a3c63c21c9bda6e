// lockstep bench cluster: how long a placed step of trivial tensors takes between processes of this
// machine, each with a server of its own, and how long it takes from starting the servers to the
// first such step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

struct BenchClusterFlags {
  std::vector<std::string> links;  // kinds; all if empty
  int tasks = 2;
  int64_t steps = 5000;  // measured
  int64_t warmup = 500;  // before
  int64_t elements = 1;  // of every tensor
  bool json = false;
};

// In a step a tensor goes from task 0 to task 1 and so on, and from the last one back to task 0;
// each doubles it. Starts its own processes. A table, or one JSON object, on standard output.
Outcome BenchCluster(const BenchClusterFlags& flags);

}  // namespace lockstep::cli
