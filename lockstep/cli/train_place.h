// Where a training run takes place: in this process alone, in workers that it starts, or in the
// tasks of a cluster, of which this process is one.
#pragma once

#include "lockstep/cli/job.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cli {

struct TrainPlace {
  enum class Kind {
    kAlone,
    // Starts `workers` processes on this machine, which find themselves in a cluster.
    kLauncher,
    kWorker,
  };

  Kind kind = Kind::kAlone;
  // Processes that train.
  int workers = 1;
  // "mirrored", as it was asked for or follows from the rest.
  std::string strategy;
  // For kWorker: the cluster and which task this process is.
  cluster::Resolution here;

  // Number 0 of the workers, or alone: whoever prints, saves and sums up.
  bool is_chief() const { return kind != Kind::kWorker || here.is_chief(); }
};

// From the flags and the environment. An error is one message with its exit code: a strategy that
// there is not, one that does not go with so many devices or workers, a cluster with tasks of no
// use, a process that is none of its tasks.
Outcome FindTrainPlace(const JobFlags& flags, TrainPlace& place);

}  // namespace lockstep::cli
