// Saving and loading what a job has learnt.
#pragma once

#include <memory>
#include <string>

#include "lockstep/cli/job.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::cli {

// Whether `path`, which was given for a checkpoint, is a folder at all: a usage error if not.
Outcome CheckCheckpointPath(const std::string& path);

// Takes the folder of the run's checkpoints, made where it is missing and this is a new run.
Outcome OpenRunFolder(const std::string& dir, bool resume, std::unique_ptr<train::RunFolder>& run);

// Whether the disk has room for a checkpoint of the job.
Status CheckSpace(const train::RunFolder& run, const Job& job);

// Writes a checkpoint of the end of `fit`. The error says what is lost.
Status SaveJob(train::RunFolder& run, const Job& job, const train::FitResult& fit);

// Goes on with the run that the newest checkpoint of the folder is of: restores all variables, and
// where it stood to `position`. Another run's, named by what differs, is a data error.
Outcome ResumeJob(const std::string& dir, train::RunFolder& run, Job& job,
                  train::TrainPosition& position);

// Restores the variables of the model, for evaluation, from a checkpoint or the newest one below
// `path`. One of another model is FAILED_PRECONDITION, naming what differs.
Status LoadModel(const std::string& path, Job& job);

}  // namespace lockstep::cli
