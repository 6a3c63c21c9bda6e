// lockstep train
#pragma once

#include <chrono>
#include <string>

#include "lockstep/cli/job.h"

namespace lockstep::cli {

struct TrainFlags {
  JobFlags job;
  std::string checkpoint_dir;
  bool resume = false;
  std::string summary_path;
  bool quiet = false;
};

Outcome Train(const TrainFlags& flags);

}  // namespace lockstep::cli
