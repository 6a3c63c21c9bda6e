// Saving and loading what a job has learnt.
#pragma once

#include <string>

#include "lockstep/cli/job.h"

namespace lockstep::cli {

// Writes a checkpoint of the end of `fit` below `dir`.
Status SaveJob(const std::string& dir, const Job& job, const train::FitResult& fit);

// Refuses a folder that holds checkpoints: a new run would mix with the old one, and move `latest`
// back to its own.
Status CheckNewRun(const std::string& dir);

// Restores the variables of the model from a checkpoint, or from the newest one below `path`; the
// state of the optimizer as well if `with_slots`, and where the run stood to `position` unless that
// is null; then a checkpoint of a run with other settings is FAILED_PRECONDITION, naming them.
Status LoadJob(const std::string& path, bool with_slots, Job& job, train::TrainPosition* position);

}  // namespace lockstep::cli
