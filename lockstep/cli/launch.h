// `lockstep launch -n N [--ps K] -- PROGRAM ARGS...`
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/cluster/launch/supervisor.h"

namespace lockstep::cli {

struct LaunchFlags {
  int workers = 0;  // Must be given.
  int ps = 0;
  double settle_seconds = 12;
  double grace_seconds = 10;
  std::vector<std::string> command;
};

// Runs them in this process's environment, with a secret of their job where it has none. The code
// may be any of a task. For a process with one thread.
Outcome LaunchWithSecret(cluster::LaunchOptions options);

Outcome LaunchTasks(const LaunchFlags& flags);

}  // namespace lockstep::cli
