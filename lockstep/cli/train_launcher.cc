#include "lockstep/cli/train_launcher.h"

#include <cstdio>

#include "lockstep/cli/launch.h"
#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cli {

Outcome LaunchTraining(const TrainFlags& flags, const TrainPlace& place) {
  Job job;
  job.strategy_name = place.strategy;
  Outcome outcome = ReadJobConfig(flags.job, place.workers, job);
  if (outcome.status.ok()) {
    outcome = PrepareJob(DataNeed::kDescription, job);
  }
  if (!outcome.status.ok()) {
    return outcome;
  }
  const train::ClusterConfig& config = job.config.cluster;
  cluster::LaunchOptions options;
  options.workers = place.workers;
  options.command = flags.command;
  options.first_is_plain = true;
  // Twice the heartbeat, within which a lost worker is known to the others, and time to end.
  options.settle = Milliseconds(2 * config.heartbeat + 2);
  // A worker that is told to stop first ends its step, and saves.
  options.stop_grace = Milliseconds(config.step_timeout);
  return LaunchWithSecret(std::move(options));
}

}  // namespace lockstep::cli
