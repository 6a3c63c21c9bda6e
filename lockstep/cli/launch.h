// `lockstep launch -n N [--ps K] -- PROGRAM ARGS...`
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

struct LaunchFlags {
  int workers = 1;
  int ps = 0;
  double settle_seconds = 12;
  double grace_seconds = 10;
  std::vector<std::string> command;
};

// The code may be any of a task.
Outcome LaunchTasks(const LaunchFlags& flags);

}  // namespace lockstep::cli
