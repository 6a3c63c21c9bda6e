// Saving and loading what a job has learnt.
#pragma once

#include <string>

#include "lockstep/cli/job.h"

namespace lockstep::cli {

// Writes a checkpoint of the end of `fit` below `dir`.
Status SaveJob(const std::string& dir, const Job& job, const train::FitResult& fit);

// Restores the variables of the model from a checkpoint, or from the newest one below `path`; the
// state of the optimizer as well if `with_slots`, and where the run stood to `position` unless that
// is null.
Status LoadJob(const std::string& path, bool with_slots, Job& job, train::TrainPosition* position);

}  // namespace lockstep::cli
