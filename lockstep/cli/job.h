// A job as a configuration and flags describe it: data, program and strategy, ready to train,
// evaluate or predict.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/command.h"
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
  std::string strategy;
  int workers = 1;
  int ps = 0;
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

// Reads the configuration with the flags over it into `job`, and refuses by name what this version
// does not do. An error is one message with its exit code.
Outcome ReadJobConfig(const JobFlags& flags, Job& job);

// Goes on with a job whose configuration was read: loads the data and builds the program and the
// strategy. CANCELLED when `should_stop` says so.
Outcome PrepareJob(DataNeed need, Job& job, const data::StopCheck& should_stop = {});

// Warns of what works for training, but cannot be meant.
void WarnOfWaste(const Job& job);

// Where the key was given, behind the error.
Status AtKey(Status status, const train::Config& config, std::string_view key);

// "cpu:2" -> 2.
Result<int> ParseDevices(const std::string& text);

}  // namespace lockstep::cli
