// lockstep train
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/job.h"
#include "lockstep/cli/signals.h"

namespace lockstep::cli {

struct TrainFlags {
  JobFlags job;
  std::string checkpoint_dir;
  bool resume = false;
  std::string summary_path;
  bool quiet = false;
  // The program and its arguments, as it starts itself again for each worker.
  std::vector<std::string> command;
};

// `signals` were taken over at the start of the program, or are taken over here; a process that
// only starts workers gives them back.
Outcome Train(const TrainFlags& flags, std::optional<StopSignals>& signals);

}  // namespace lockstep::cli
