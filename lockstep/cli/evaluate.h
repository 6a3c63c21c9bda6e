// lockstep evaluate
#pragma once

#include <string>

#include "lockstep/cli/job.h"

namespace lockstep::cli {

struct EvaluateFlags {
  JobFlags job;
  std::string checkpoint;
  std::string summary_path;
  bool quiet = false;
};

Outcome Evaluate(const EvaluateFlags& flags);

}  // namespace lockstep::cli
