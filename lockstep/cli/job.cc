#include "lockstep/cli/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "lockstep/data/idx_folder.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/train/model_from_config.h"

namespace lockstep::cli {
namespace {

Status NotYet(std::string_view what) {
  return Unimplemented(fmt::format("{} is not available in this version", what));
}

Status CheckStrategy(const JobFlags& flags, int devices) {
  constexpr std::array<std::string_view, 4> kLater = {"multi_worker_mirrored", "central_storage",
                                                      "local_sgd", "parameter_server"};
  const std::string& name = flags.strategy;
  if (std::find(kLater.begin(), kLater.end(), name) != kLater.end()) {
    return NotYet(fmt::format("--strategy {}", name));
  }
  if (!name.empty() && name != "one_device" && name != "mirrored") {
    return InvalidArgument(fmt::format(
        "--strategy: there is no strategy '{}': allowed are one_device and mirrored", name));
  }
  if (name == "one_device" && devices > 1) {
    return InvalidArgument(
        fmt::format("--strategy one_device runs on one device, --devices asks for {}", devices));
  }
  if (flags.workers != 1) {
    return NotYet(fmt::format("--workers {} (more than this one process)", flags.workers));
  }
  if (flags.ps != 0) {
    return NotYet(fmt::format("--ps {} (parameter servers)", flags.ps));
  }
  const char* tf_config = std::getenv("TF_CONFIG");
  if (tf_config != nullptr && *tf_config != '\0') {
    return NotYet("training as a task of the cluster that TF_CONFIG describes");
  }
  return OkStatus();
}

Status CheckConfig(const train::Config& config) {
  const auto refuse = [&](std::string_view key, std::string_view what) {
    const auto it = config.given.find(key);
    return it == config.given.end() ? OkStatus() : NotYet(what).With(it->second);
  };
  if (config.cluster.mode != "sync") {
    LS_TRY(refuse("cluster.mode", fmt::format("cluster.mode = '{}'", config.cluster.mode)));
  }
  if (config.cluster.max_restarts != 0) {
    LS_TRY(refuse("cluster.max_restarts", "cluster.max_restarts"));
  }
  if (config.checkpoint.every_steps != 0) {
    LS_TRY(refuse("checkpoint.every_steps",
                  "checkpoint.every_steps (only the end of a run is saved)"));
  }
  if (!config.monitor.logdir.empty()) {
    LS_TRY(refuse("monitor.logdir", "writing event files (monitor.logdir, --logdir)"));
  }
  return OkStatus();
}

Result<data::Dataset> LoadData(const train::Config& config) {
  if (config.data.source == "synthetic") {
    data::SyntheticOptions options;
    options.sample_shape = Shape(std::span<const int64_t>(config.model.input_shape));
    options.num_classes = config.model.num_classes == 0 ? 10 : config.model.num_classes;
    options.train_samples = config.data.train_samples;
    options.test_samples = config.data.test_samples;
    options.seed = static_cast<uint64_t>(config.train.seed);
    return data::MakeSynthetic(options);
  }
  if (config.data.source == "mnist") {
    return data::LoadMnist(config.data.path);
  }
  return data::LoadIdxFolder(config.data.path, config.model.num_classes);
}

Status CheckInputShape(const train::Config& config, const data::Dataset& dataset) {
  const std::vector<int64_t>& wanted = config.model.input_shape;
  if (!wanted.empty() && !(Shape(std::span<const int64_t>(wanted)) == dataset.sample_shape)) {
    return InvalidArgument(fmt::format("model.input_shape is {}, a sample of {} has the shape {}",
                                       Shape(std::span<const int64_t>(wanted)).ToString(),
                                       dataset.name, dataset.sample_shape.ToString()));
  }
  return OkStatus();
}

Outcome BuildJobProgram(Job& job) {
  const train::Config& config = job.config;
  const int64_t classes = std::max(config.model.num_classes, job.dataset.num_classes);
  Result<model::ModelFn> model = train::ModelFromConfig(config.model, job.dataset.num_classes);
  if (!model.ok()) {
    return Fail(ExitCode::kUsage, model.status());
  }
  train::ProgramOptions options;
  options.sample_shape = job.dataset.sample_shape;
  options.num_classes = classes;
  options.optimizer = config.optimizer;
  options.clip = {config.train.clip_value, config.train.clip_norm, config.train.clip_global_norm};
  options.label_smoothing = config.train.label_smoothing;
  options.bf16 = config.train.precision == "bf16";
  Result<train::Program> program = train::BuildProgram(*model, options);
  if (!program.ok()) {
    return Fail(ExitCode::kUsage,
                program.status().With(fmt::format("model '{}'", config.model.name)));
  }
  job.program = std::move(program).value();
  return Done();
}

// Reads the configuration with the flags over it, and refuses what is not there yet by name.
Outcome ReadConfig(const JobFlags& flags, train::Config& config) {
  Result<int> devices = ParseDevices(flags.devices);
  if (!devices.ok()) {
    return Fail(ExitCode::kUsage, devices.status());
  }
  if (Status status = CheckStrategy(flags, *devices); !status.ok()) {
    return Fail(ExitCode::kUsage, std::move(status));
  }
  Result<train::Config> read = train::LoadConfig(flags.config_path, flags.overrides);
  if (!read.ok()) {
    return Fail(ExitCode::kUsage, read.status());
  }
  config = std::move(read).value();
  if (Status status = CheckConfig(config); !status.ok()) {
    return Fail(ExitCode::kUsage, std::move(status));
  }
  return Done();
}

}  // namespace

Result<int> ParseDevices(const std::string& text) {
  if (text.empty()) {
    return 1;
  }
  constexpr std::string_view kPrefix = "cpu:";
  constexpr int kMostDevices = 256;
  int count = 0;
  const char* begin = text.data() + std::min(kPrefix.size(), text.size());
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(begin, end, count);
  if (text.compare(0, kPrefix.size(), kPrefix) != 0 || error != std::errc() || parsed != end ||
      count < 1 || count > kMostDevices) {
    return InvalidArgument(
        fmt::format("--devices '{}': expected cpu:N with N from 1 to {}", text, kMostDevices));
  }
  return count;
}

train::TrainerOptions Job::TrainerOptionsOf() const {
  train::TrainerOptions options;
  options.global_batch = config.train.global_batch;
  options.parts = parts;
  options.epochs = config.train.epochs;
  options.steps = config.train.steps;
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.shuffle = config.data.shuffle;
  options.eval_batch = config.train.eval_batch;
  options.optimizer = config.optimizer;
  return options;
}

Outcome PrepareJob(const JobFlags& flags, Job& job) {
  Outcome outcome = ReadConfig(flags, job.config);
  if (!outcome.status.ok()) {
    return outcome;
  }
  Result<data::Dataset> dataset = LoadData(job.config);
  if (!dataset.ok()) {
    return Fail(ExitCode::kData, dataset.status());
  }
  job.dataset = std::move(dataset).value();
  if (Status status = CheckInputShape(job.config, job.dataset); !status.ok()) {
    return Fail(ExitCode::kUsage, std::move(status));
  }
  outcome = BuildJobProgram(job);
  if (!outcome.status.ok()) {
    return outcome;
  }
  const int devices = ParseDevices(flags.devices).value();
  // Without a number of replicas every device is one.
  const int64_t replicas =
      job.config.IsGiven("train.replicas") ? job.config.train.replicas : devices;
  const int64_t parts = replicas * job.config.train.gradient_accumulation;
  constexpr int64_t kMostParts = 1 << 20;
  if (parts > kMostParts) {
    return Fail(ExitCode::kUsage,
                InvalidArgument(fmt::format(
                    "{} replicas with {} micro-batches each: allowed are {} parts of a step",
                    replicas, job.config.train.gradient_accumulation, kMostParts)));
  }
  job.config.train.replicas = replicas;
  job.parts = static_cast<int>(parts);
  strategy::LocalReplicasOptions options;
  options.devices = devices;
  options.threads_per_device = flags.threads_per_device;
  options.replicas = job.parts;
  options.seed = static_cast<uint64_t>(job.config.train.seed);
  auto strategy = strategy::LocalReplicas::Create(job.program, options);
  if (!strategy.ok()) {
    return Fail(ExitCode::kUsage, strategy.status());
  }
  job.strategy = std::move(strategy).value();
  return Done();
}

}  // namespace lockstep::cli
