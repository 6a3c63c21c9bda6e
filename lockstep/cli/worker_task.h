// WorkerTask: this process as a task of a cluster that trains one job together: its server, its
// links with the others, and the group in which they add up.
//
//   std::unique_ptr<WorkerTask> task;
//   Outcome outcome = WorkerTask::Start(place, flags, config, signals, task);
//   outcome = task->Meet(fingerprint, parts, signals);
//   ... train with task->group() and task->workers() ...
//   const Status left = task->Leave(outcome.status);
#pragma once

#include <memory>
#include <string>

#include "lockstep/cli/signals.h"
#include "lockstep/cli/train_place.h"
#include "lockstep/cluster/security/security_flags.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/strategy/group_workers.h"
#include "lockstep/train/config.h"

namespace lockstep::cli {

class WorkerTask {
 public:
  // Returns when every task is there and linked, or says who is missing. A signal that comes before
  // ends the process: there is nothing to lose. The place must outlive the task.
  static Outcome Start(const TrainPlace& place, const JobFlags& flags, const train::Config& config,
                       const StopSignals& signals, std::unique_ptr<WorkerTask>& task);

  WorkerTask(const TrainPlace& place, const train::Config& config);
  WorkerTask(const WorkerTask&) = delete;
  WorkerTask& operator=(const WorkerTask&) = delete;
  ~WorkerTask();

  // Compares what determines the result with the chief's, and makes the group, with `parts` logical
  // replicas. Settings that differ are an error that names them. Signals: as above.
  Outcome Meet(const std::string& fingerprint, int parts, const StopSignals& signals);

  collective::Group& group() { return *group_; }

  train::Workers& workers() { return *workers_; }

  // The error itself, or where it says only that another task has gone, why that one did.
  Status Cause(Status status) const;

  // Says to the others that this task is done, or why it gave up. The chief waits for them.
  Status Leave(const Status& outcome);

 private:
  Status CompareWithChief(const std::string& fingerprint, const Deadline& deadline);

  const TrainPlace& place_;
  const std::chrono::milliseconds start_timeout_;
  const std::chrono::milliseconds step_timeout_;
  std::unique_ptr<cluster::Server> server_;
  std::unique_ptr<collective::Group> group_;
  std::unique_ptr<strategy::GroupWorkers> workers_;
};

}  // namespace lockstep::cli
