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
#include "lockstep/collective/group.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train/config.h"
#include "lockstep/train/program.h"
#include "lockstep/train/step_runner.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/workers.h"

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

inline constexpr std::string_view kLocalSgd = "local_sgd";

struct Job {
  train::Config config;
  int devices = 1;
  int threads_per_device = 1;
  data::Dataset dataset;
  train::Program program;
  // By name, as the program is asked for it; empty where nothing is trained.
  std::string strategy_name;
  std::unique_ptr<train::StepRunner> strategy;

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

// The processes that execute a job together; all null for one that is alone.
struct JobWorkers {
  collective::Group* group = nullptr;
  train::Workers* workers = nullptr;
};

// The strategy of a prepared job.
Outcome MakeStrategy(const JobWorkers& workers, Job& job);

// What a user may want to know of the data that were loaded or described.
void PrintDataWarnings(const Job& job);

// Warns of what works for training with so many workers, but cannot be meant.
void WarnOfWaste(const Job& job, int workers);

// Where the key was given, behind the error.
Status AtKey(Status status, const train::Config& config, std::string_view key);

// "cpu:2" -> 2.
Result<int> ParseDevices(const std::string& text);

}  // namespace lockstep::cli
