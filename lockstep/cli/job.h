// A job as a configuration and flags describe it: data, program and strategy, ready to train,
// evaluate or predict.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/cluster.h"
#include "lockstep/cli/command.h"
#include "lockstep/cluster/security/security_flags.h"
#include "lockstep/data/dataset.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/config.h"
#include "lockstep/train/program.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {

// What a command needs of the data set.
enum class DataNeed {
  kSamples,
  // Its name, the shape of a sample and the number of classes; reads only what is unknown without.
  kDescription,
};

struct JobFlags {
  std::string config_path;
  // Flags that stand for a key of the configuration, in order of appearance.
  std::vector<train::ConfigOverride> overrides;
  // "cpu:N", or empty for cpu:1.
  std::string devices;
  int threads_per_device = 1;
  // Of `train` only: 0 workers are as many as the cluster has, or one.
  std::string strategy;
  int workers = 0;
  int ps = 0;
  ClusterSourceFlags cluster;
  cluster::SecurityFlags security;
};

struct Job {
  train::Config config;
  int devices = 1;
  int threads_per_device = 1;
  data::Dataset dataset;
  train::Program program;
  std::unique_ptr<strategy::LocalReplicas> strategy;

  // Parts of a step: replicas times micro-batches.
  int parts() const {
    return static_cast<int>(config.train.replicas * config.train.gradient_accumulation);
  }

  train::TrainerOptions TrainerOptionsOf() const;
};

// Reads the configuration with the flags over it into `job`, which `workers` processes execute, and
// refuses by name what this version does not do. An error is one message with its exit code.
Outcome ReadJobConfig(const JobFlags& flags, int workers, Job& job);

// Goes on with a job whose configuration was read: loads the data and builds the program. CANCELLED
// when `should_stop` says so.
Outcome PrepareJob(DataNeed need, Job& job, const data::StopCheck& should_stop = {});

// The strategy of a prepared job, by its name; with the group of its workers, if it has several.
Outcome MakeStrategy(const std::string& name, collective::Group* group, Job& job);

// What a user may want to know of the data that were loaded or described.
void PrintDataWarnings(const Job& job);

// Warns of what works for training with so many workers, but cannot be meant.
void WarnOfWaste(const Job& job, int workers);

// Where the key was given, behind the error.
Status AtKey(Status status, const train::Config& config, std::string_view key);

// "cpu:2" -> 2.
Result<int> ParseDevices(const std::string& text);

}  // namespace lockstep::cli
