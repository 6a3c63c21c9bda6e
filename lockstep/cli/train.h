// lockstep train
#pragma once

#include <chrono>
#include <string>

#include "lockstep/cli/job.h"
#include "lockstep/cli/signals.h"

namespace lockstep::cli {

struct TrainFlags {
  JobFlags job;
  std::string checkpoint_dir;
  bool resume = false;
  std::string summary_path;
  bool quiet = false;
};

// `signals` were taken over at the start of the program.
Outcome Train(const TrainFlags& flags, StopSignals& signals);

}  // namespace lockstep::cli
