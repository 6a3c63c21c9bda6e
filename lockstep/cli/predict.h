// lockstep predict
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/job.h"

namespace lockstep::cli {

struct PredictFlags {
  JobFlags job;
  std::string checkpoint;
  // IDX files of images, plain or gzip.
  std::vector<std::string> inputs;
};

// One line per sample on standard output: file, index, class, probability.
Outcome Predict(const PredictFlags& flags);

}  // namespace lockstep::cli
