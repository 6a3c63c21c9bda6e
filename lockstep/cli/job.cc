#include "lockstep/cli/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/data/idx_folder.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/strategy/local_sgd.h"
#include "lockstep/train/model_from_config.h"

namespace lockstep::cli {
namespace {

Status NotYet(std::string_view what) {
  return Unimplemented(fmt::format("{} is not available in this version", what));
}

Status CheckConfig(const train::Config& config, const std::string& strategy) {
  for (const std::string_view key : {"train.merge_steps", "train.outer_learning_rate",
                                     "train.outer_momentum", "train.outer_nesterov"}) {
    if (!strategy.empty() && strategy != kLocalSgd && config.IsGiven(key)) {
      return AtKey(InvalidArgument(fmt::format("{} has no effect, it is for --strategy local_sgd "
                                               "only",
                                               key)),
                   config, key);
    }
  }
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
  constexpr int64_t kMostParts = 1 << 20;
  if (config.train.replicas * config.train.gradient_accumulation > kMostParts) {
    return InvalidArgument(
        fmt::format("{} replicas with {} micro-batches each: allowed are {} parts of a step",
                    config.train.replicas, config.train.gradient_accumulation, kMostParts));
  }
  return OkStatus();
}

Shape GivenShape(const train::Config& config) {
  return Shape(std::span<const int64_t>(config.model.input_shape));
}

data::SyntheticOptions SyntheticOf(const train::Config& config) {
  data::SyntheticOptions options;
  options.sample_shape = GivenShape(config);
  options.num_classes = config.model.num_classes;
  options.train_samples = config.data.train_samples;
  options.test_samples = config.data.test_samples;
  options.seed = static_cast<uint64_t>(config.train.seed);
  return options;
}

Result<data::Dataset> LoadData(const train::Config& config, const data::StopCheck& should_stop) {
  if (config.data.source == "synthetic") {
    data::SyntheticOptions options = SyntheticOf(config);
    options.should_stop = should_stop;
    Result<data::Dataset> dataset = data::MakeSynthetic(options);
    if (dataset.status().code() == StatusCode::kResourceExhausted) {
      return dataset.status().With(fmt::format(
          "data.train_samples = {} and data.test_samples = {} samples of model.input_shape = {}",
          options.train_samples, options.test_samples, options.sample_shape.ToString()));
    }
    return dataset;
  }
  if (config.data.source == "mnist") {
    return data::LoadMnist(config.data.path, should_stop);
  }
  return data::LoadIdxFolder(config.data.path, 0, should_stop);
}

Result<data::Dataset> DescribeData(const train::Config& config) {
  if (config.data.source == "mnist") {
    return data::DescribeMnist(config.data.path);
  }
  if (config.model.input_shape.empty() || config.model.num_classes == 0) {
    return data::DescribeIdxFolder(config.data.path);
  }
  data::Dataset dataset;
  dataset.name = config.data.source == "synthetic" ? config.data.source : config.data.path;
  dataset.sample_shape = GivenShape(config);
  dataset.num_classes = config.model.num_classes;
  return dataset;
}

// Whether the data and what the configuration says about it go together.
Outcome CheckData(const Job& job) {
  const train::Config& config = job.config;
  const data::Dataset& dataset = job.dataset;
  if (!config.model.input_shape.empty() && !(GivenShape(config) == dataset.sample_shape)) {
    const Status status = InvalidArgument(fmt::format(
        "model.input_shape is {}, a sample of {} has the shape {}", GivenShape(config).ToString(),
        Shown(dataset.name), dataset.sample_shape.ToString()));
    return Fail(ExitCode::kUsage, AtKey(status, config, "model.input_shape"));
  }
  if (config.model.num_classes == 0 && dataset.num_classes < 2) {
    return Fail(ExitCode::kData,
                InvalidArgument(fmt::format(
                    "{}: all samples have the label 0, a classifier needs 2 classes or more; "
                    "model.num_classes may say that there are more than these samples show",
                    Shown(dataset.name))));
  }
  return Done();
}

Outcome BuildJobProgram(Job& job) {
  const train::Config& config = job.config;
  const int64_t classes = std::max(config.model.num_classes, job.dataset.num_classes);
  Result<model::ModelFn> model = train::ModelFromConfig(config.model, job.dataset.num_classes);
  if (!model.ok()) {
    return Fail(ExitCode::kUsage, AtKey(model.status(), config, "model.num_classes"));
  }
  train::ProgramOptions options;
  options.sample_shape = job.dataset.sample_shape;
  options.num_classes = classes;
  options.optimizer = config.optimizer;
  options.clip = {config.train.clip_value, config.train.clip_norm, config.train.clip_global_norm};
  options.label_smoothing = config.train.label_smoothing;
  options.bf16 = config.train.precision == "bf16";
  if (config.IsGiven("optimizer.decay_exclude")) {
    options.decay_exclude_place = config.given.find("optimizer.decay_exclude")->second;
  }
  if (!config.model.layers.empty()) {
    const train::LayerConfig& last = config.model.layers.back();
    options.output_place = fmt::format(
        "{} ({}) at {}", train::LayerName(static_cast<int64_t>(config.model.layers.size()) - 1),
        last.type, last.where);
  }
  Result<train::Program> program = train::BuildProgram(*model, options);
  if (!program.ok()) {
    return Fail(ExitCode::kUsage, program.status().With(fmt::format(
                                      "model '{}' for samples of the shape {}", config.model.name,
                                      job.dataset.sample_shape.ToString())));
  }
  job.program = std::move(program).value();
  return Done();
}

}  // namespace

Status AtKey(Status status, const train::Config& config, std::string_view key) {
  const auto found = config.given.find(key);
  return found == config.given.end() ? status : status.With(found->second);
}

void PrintDataWarnings(const Job& job) {
  for (const std::string& warning : job.dataset.warnings) {
    PrintWarning(warning);
  }
}

void WarnOfWaste(const Job& job, int workers) {
  const int64_t devices = int64_t{workers} * job.devices;
  if (workers > 1 && devices > job.parts()) {
    PrintWarning(fmt::format(
        "{} workers with {} device{} each for {} logical replicas: {} devices "
        "have nothing to do",
        workers, job.devices, job.devices == 1 ? "" : "s", job.parts(), devices - job.parts()));
  }
  const int64_t batch = job.config.train.global_batch;
  if (job.parts() > batch) {
    PrintWarning(fmt::format(
        "train.replicas * train.gradient_accumulation = {} parts of a step for train.global_batch "
        "= {}: {} nothing to do",
        job.parts(), Counted(batch, "sample"),
        Counted(job.parts() - batch, "of them has", "of them have")));
  }
  // A few threads too many are how one tries things out.
  constexpr int64_t kThreadsPerCore = 4;
  const int64_t threads = int64_t{job.devices} * job.threads_per_device;
  const int64_t cores = std::thread::hardware_concurrency();
  if (cores > 0 && threads > kThreadsPerCore * cores) {
    PrintWarning(
        fmt::format("--devices cpu:{} and --threads-per-device {} make {} threads on {}: "
                    "they will wait for one another",
                    job.devices, job.threads_per_device, threads, Counted(cores, "core")));
  }
}

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
    return InvalidArgument(fmt::format("--devices {}: expected cpu:N with N from 1 to {}",
                                       Quoted(text), kMostDevices));
  }
  return count;
}

train::TrainerOptions Job::TrainerOptionsOf() const {
  train::TrainerOptions options;
  options.global_batch = config.train.global_batch;
  options.parts = parts();
  options.epochs = config.train.epochs;
  options.steps = config.train.steps;
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.shuffle = config.data.shuffle;
  options.eval_batch = config.train.eval_batch;
  options.optimizer = config.optimizer;
  return options;
}

Outcome ReadJobConfig(const JobFlags& flags, int workers, Job& job) {
  Result<int> devices = ParseDevices(flags.devices);
  if (!devices.ok()) {
    return Fail(ExitCode::kUsage, devices.status());
  }
  Result<train::Config> read = train::LoadConfig(flags.config_path, flags.overrides);
  if (!read.ok()) {
    return Fail(ExitCode::kUsage, read.status());
  }
  job.config = std::move(read).value();
  job.devices = *devices;
  job.threads_per_device = flags.threads_per_device;
  if (!job.config.IsGiven("train.replicas")) {
    // Then every device is one.
    job.config.train.replicas = int64_t{workers} * job.devices;
  }
  if (Status status = CheckConfig(job.config, job.strategy_name); !status.ok()) {
    return Fail(ExitCode::kUsage, std::move(status));
  }
  return Done();
}

Outcome PrepareJob(DataNeed need, Job& job, const data::StopCheck& should_stop) {
  Result<data::Dataset> dataset =
      need == DataNeed::kSamples ? LoadData(job.config, should_stop) : DescribeData(job.config);
  if (!dataset.ok()) {
    return Fail(ExitCode::kData, dataset.status());
  }
  job.dataset = std::move(dataset).value();
  Outcome outcome = CheckData(job);
  if (outcome.status.ok()) {
    outcome = BuildJobProgram(job);
  }
  if (!outcome.status.ok()) {
    return outcome;
  }
  Status stopped = data::CheckStop(should_stop);
  return stopped.ok() ? Done() : Fail(ExitCode::kOther, std::move(stopped));
}

namespace {

Result<std::unique_ptr<train::StepRunner>> MakeReplicas(const JobWorkers& workers, const Job& job) {
  const train::ClusterConfig& cluster = job.config.cluster;
  LS_ASSIGN_OR_RETURN(std::unique_ptr<train::StepRunner> made,
                      strategy::LocalReplicas::Create(
                          job.program, {.name = job.strategy_name,
                                        .devices = job.devices,
                                        .threads_per_device = job.threads_per_device,
                                        .replicas = job.parts(),
                                        .seed = static_cast<uint64_t>(job.config.train.seed),
                                        .group = workers.group,
                                        .bucket_bytes = static_cast<size_t>(cluster.bucket_bytes),
                                        .algorithm = *collective::ParseAlgorithm(cluster.algorithm),
                                        .timeout = Milliseconds(cluster.step_timeout)}));
  return made;
}

Result<std::unique_ptr<train::StepRunner>> MakeLocalSgd(const JobWorkers& workers, const Job& job) {
  const train::ClusterConfig& cluster = job.config.cluster;
  const train::TrainConfig& train = job.config.train;
  if (train.gradient_accumulation != 1) {
    return AtKey(InvalidArgument(fmt::format("train.gradient_accumulation = {} does not go with "
                                             "the strategy local_sgd, whose replicas make their "
                                             "own updates",
                                             train.gradient_accumulation)),
                 job.config, "train.gradient_accumulation");
  }
  LS_ASSIGN_OR_RETURN(std::unique_ptr<train::StepRunner> made,
                      strategy::LocalSgd::Create(
                          job.program, {.devices = job.devices,
                                        .threads_per_device = job.threads_per_device,
                                        .replicas = job.parts(),
                                        .seed = static_cast<uint64_t>(train.seed),
                                        .merge_steps = train.merge_steps,
                                        .outer_learning_rate = train.outer_learning_rate,
                                        .outer_momentum = train.outer_momentum,
                                        .outer_nesterov = train.outer_nesterov,
                                        .group = workers.group,
                                        .workers = workers.workers,
                                        .bucket_bytes = static_cast<size_t>(cluster.bucket_bytes),
                                        .algorithm = *collective::ParseAlgorithm(cluster.algorithm),
                                        .timeout = Milliseconds(cluster.step_timeout)}));
  return made;
}

}  // namespace

Outcome MakeStrategy(const JobWorkers& workers, Job& job) {
  Result<std::unique_ptr<train::StepRunner>> made =
      job.strategy_name == kLocalSgd ? MakeLocalSgd(workers, job) : MakeReplicas(workers, job);
  if (!made.ok()) {
    return Fail(ExitCode::kUsage, made.status());
  }
  job.strategy = std::move(made).value();
  return Done();
}

}  // namespace lockstep::cli
