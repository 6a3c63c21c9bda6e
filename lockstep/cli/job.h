// A job as a configuration and flags describe it: data, program and strategy, ready to train,
// evaluate or predict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/data/dataset.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/config.h"
#include "lockstep/train/program.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {

struct JobFlags {
  std::string config_path;
  // Flags that stand for a key of the configuration, in order of appearance.
  std::vector<train::ConfigOverride> overrides;
  // "cpu:N", or empty for cpu:1.
  std::string devices;
  int threads_per_device = 1;
  std::string strategy;
  int workers = 1;
  int ps = 0;
};

struct Job {
  train::Config config;
  data::Dataset dataset;
  train::Program program;
  std::unique_ptr<strategy::LocalReplicas> strategy;

  // Parts of a step: replicas times micro-batches.
  int parts = 1;

  train::TrainerOptions TrainerOptionsOf() const;
};

// Loads the data and builds the program and the strategy. An error is one message with its exit
// code.
Outcome PrepareJob(const JobFlags& flags, Job& job);

// "cpu:2" -> 2.
Result<int> ParseDevices(const std::string& text);

}  // namespace lockstep::cli
