#include "lockstep/cli/bench_step.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"
#include "lockstep/cli/process_age.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/model/zoo.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/program.h"
#include "lockstep/train/summary.h"

namespace lockstep::cli {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Result<data::Dataset> MakeData(const BenchStepFlags& flags) {
  for (const model::ModelInfo& info : model::Models()) {
    if (info.name != flags.model) {
      continue;
    }
    data::SyntheticOptions options;
    options.sample_shape = Shape(std::span<const int64_t>(info.input_shape));
    // Those of the data sets that the networks were made for.
    options.num_classes = info.input_shape[0] == 224 ? 1000 : 10;
    options.train_samples = flags.batch;
    options.test_samples = 0;
    return data::MakeSynthetic(options);
  }
  return model::MakeModel(flags.model, {}).status();
}

Result<train::OptimizerConfig> OptimizerOf(const BenchStepFlags& flags) {
  const std::span<const std::string_view> known = train::OptimizerNames();
  if (std::find(known.begin(), known.end(), flags.optimizer) == known.end()) {
    return InvalidArgument(fmt::format("--optimizer: there is no optimizer {}{}: allowed are {}",
                                       Quoted(flags.optimizer), DidYouMean(flags.optimizer, known),
                                       fmt::join(known, ", ")));
  }
  train::OptimizerConfig optimizer;
  optimizer.nesterov = flags.optimizer == "nesterov";
  optimizer.name = optimizer.nesterov ? "momentum" : flags.optimizer;
  optimizer.learning_rate = 0.01;
  return optimizer;
}

struct Times {
  std::vector<double> wall_ms;
  std::vector<double> cpu_ms;
  double first_step_seconds = 0;
  double first_loss = 0;
  double last_loss = 0;
};

Result<Times> RunSteps(strategy::LocalReplicas& strategy, const data::Split& split,
                       const BenchStepFlags& flags, exec::StepProfile* profile) {
  data::BatcherOptions batching;
  batching.global_batch = flags.batch;
  LS_ASSIGN_OR_RETURN(data::Batcher batcher, data::Batcher::Create(split, batching));
  LS_TRY(strategy.Initialize());
  Times times;
  for (int64_t step = 0; step < flags.warmup + flags.steps; ++step) {
    if (step == flags.warmup) {
      strategy.set_profile(profile);
    }
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = CpuSeconds();
    LS_ASSIGN_OR_RETURN(const train::StepResult result,
                        strategy.RunStep({batcher, 0, step, 0.01F}));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    if (step == 0) {
      times.first_step_seconds = ProcessAge();
      times.first_loss = result.loss;
    }
    times.last_loss = result.loss;
    if (step >= flags.warmup) {
      times.wall_ms.push_back(1e3 * wall.count());
      times.cpu_ms.push_back(1e3 * (CpuSeconds() - cpu_start));
    }
  }
  return times;
}

void PrintProfile(const exec::StepProfile& profile) {
  std::vector<exec::StepProfile::Entry> entries = profile.entries;
  double total = 0;
  for (const auto& entry : entries) {
    total += entry.seconds;
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (const auto& entry : entries) {
    fmt::print(stderr, "{:5.1f} % {:10.1f} us  {:<28} {}\n", 100 * entry.seconds / total,
               1e6 * entry.seconds / static_cast<double>(std::max<int64_t>(1, entry.calls)),
               entry.kind, entry.name);
  }
}

Outcome Print(const Times& times, const BenchStepFlags& flags) {
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  nlohmann::ordered_json json;
  json["framework"] = "lockstep";
  json["model"] = flags.model;
  json["mode"] = "plan";
  json["dtype"] = flags.precision;
  json["batch"] = flags.batch;
  json["threads"] = flags.threads;
  json["steps"] = flags.steps;
  json["step_ms_median"] = rounded(train::Percentile(times.wall_ms, 50));
  json["step_ms_p10"] = rounded(train::Percentile(times.wall_ms, 10));
  json["step_ms_p90"] = rounded(train::Percentile(times.wall_ms, 90));
  json["step_cpu_ms_median"] = rounded(train::Percentile(times.cpu_ms, 50));
  json["peak_rss_bytes"] = train::PeakRssBytes();
  json["first_step_seconds"] = rounded(times.first_step_seconds);
  json["first_loss"] = rounded(times.first_loss);
  json["last_loss"] = rounded(times.last_loss);
  PrintOutput(fmt::format("{}\n", json.dump()));
  return Done();
}

}  // namespace

Outcome BenchStep(const BenchStepFlags& flags) {
  Result<data::Dataset> dataset = MakeData(flags);
  if (!dataset.ok()) {
    return Fail(ExitCode::kUsage, dataset.status());
  }
  model::ModelOptions model_options;
  model_options.num_classes = dataset->num_classes;
  Result<model::ModelFn> model = model::MakeModel(flags.model, model_options);
  if (!model.ok()) {
    return Fail(ExitCode::kUsage, model.status());
  }
  train::ProgramOptions options;
  options.sample_shape = dataset->sample_shape;
  options.num_classes = dataset->num_classes;
  Result<train::OptimizerConfig> optimizer = OptimizerOf(flags);
  if (!optimizer.ok()) {
    return Fail(ExitCode::kUsage, optimizer.status());
  }
  options.optimizer = *optimizer;
  options.bf16 = flags.precision == "bf16";
  Result<train::Program> program = train::BuildProgram(*model, options);
  if (!program.ok()) {
    return Fail(ExitCode::kUsage, program.status());
  }
  strategy::LocalReplicasOptions strategy_options;
  strategy_options.threads_per_device = flags.threads;
  auto strategy = strategy::LocalReplicas::Create(*program, strategy_options);
  if (!strategy.ok()) {
    return Fail(ExitCode::kUsage, strategy.status());
  }
  if (flags.plan) {
    Result<std::string> plan = (*strategy)->DescribePlan(flags.batch);
    if (!plan.ok()) {
      return Fail(ExitCode::kOther, plan.status());
    }
    PrintOutput(fmt::format("{}", *plan));
    return Done();
  }
  exec::StepProfile profile;
  Result<Times> times =
      RunSteps(**strategy, dataset->train, flags, flags.profile ? &profile : nullptr);
  if (!times.ok()) {
    return Fail(ExitCode::kOther, times.status());
  }
  if (flags.profile) {
    PrintProfile(profile);
  }
  return Print(*times, flags);
}

}  // namespace lockstep::cli
