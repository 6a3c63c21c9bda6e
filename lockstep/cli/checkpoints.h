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

// Goes on with a run: restores all variables from the newest checkpoint below `dir`, and where it
// stood to `position`. A checkpoint of a run with other settings is FAILED_PRECONDITION, naming
// them.
Status ResumeJob(const std::string& dir, Job& job, train::TrainPosition& position);

// Restores the variables of the model, for evaluation, from a checkpoint or the newest one below
// `path`. One of another model is FAILED_PRECONDITION, naming what differs.
Status LoadModel(const std::string& path, Job& job);

}  // namespace lockstep::cli
