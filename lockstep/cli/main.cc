// The program `lockstep`: reads flags and environment, and calls the commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/bench_all_reduce.h"
#include "lockstep/cli/bench_cluster.h"
#include "lockstep/cli/bench_step.h"
#include "lockstep/cli/bench_transport.h"
#include "lockstep/cli/checkpoint_commands.h"
#include "lockstep/cli/cluster_commands.h"
#include "lockstep/cli/evaluate.h"
#include "lockstep/cli/list.h"
#include "lockstep/cli/number_range.h"
#include "lockstep/cli/predict.h"
#include "lockstep/cli/signals.h"
#include "lockstep/cli/standard_streams.h"
#include "lockstep/cli/train.h"
#include "lockstep/cli/usage.h"
#include "lockstep/net/grpc/grpc_log.h"

namespace {

using namespace lockstep;       // NOLINT(google-build-using-namespace)
using namespace lockstep::cli;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kVersion = "lockstep 0.1.0";

// For text and paths: nobody means an empty one.
CLI::Validator NotEmpty() {
  return {[](std::string& text) {
            return text.empty() ? std::string("found an empty text, expected a value")
                                : std::string();
          },
          ""};
}

// A flag that stands for a key of the configuration.
void AddOverride(CLI::App* command, JobFlags& flags, const std::string& flag,
                 const std::string& key, const std::string& type, const std::string& help) {
  command
      ->add_option_function<std::string>(
          flag,
          [&flags, flag, key](const std::string& value) {
            flags.overrides.push_back({fmt::format("{} {}", flag, Shown(value)), key, value});
          },
          fmt::format("{} [{}]", help, key))
      ->type_name(type)
      // As they come, so that the later of two flags wins whatever their names.
      ->trigger_on_parse();
}

void AddJobFlags(CLI::App* command, JobFlags& flags) {
  command->add_option("CONFIG", flags.config_path, "Configuration file (TOML), see docs/config.md")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->required();
  command
      ->add_option("--devices", flags.devices, "Devices of this process, N from 1 to 256 (cpu:1)")
      ->type_name("cpu:N")
      ->check(NotEmpty());
  command
      ->add_option("--threads-per-device", flags.threads_per_device,
                   "Threads of one device, 1 to 1024 (1); part of the result")
      ->type_name("N")
      ->check(InRange(1, 1024));
  AddOverride(command, flags, "--replicas", "train.replicas", "N",
              "Logical replicas R, 1 to 65536 (one per device); part of the result");
  AddOverride(command, flags, "--seed", "train.seed", "N",
              "Seed of everything random, 0 to 2^63 - 1 (0)");
  command
      ->add_option_function<std::vector<std::string>>(
          "--set",
          [&flags](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
              Result<train::ConfigOverride> parsed = train::ParseSetFlag(value);
              if (!parsed.ok()) {
                throw CLI::ValidationError(parsed.status().message());
              }
              flags.overrides.push_back(*parsed);
            }
          },
          "A configuration key: section.key=value; may be repeated, the last one wins")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->trigger_on_parse();
}

void AddCheckpoint(CLI::App* command, std::string& path) {
  command->add_option("--checkpoint", path, "A checkpoint, or the folder of them: then the newest")
      ->type_name("DIR")
      ->check(NotEmpty())
      ->required();
}

void AddSummary(CLI::App* command, std::string& path) {
  command->add_option("--summary", path, "Write a summary (one JSON object) here at the end")
      ->type_name("FILE.json")
      ->check(NotEmpty());
}

void AddTrain(CLI::App& app, std::span<char* const> command_line,
              std::optional<StopSignals>& signals, Outcome& outcome) {
  constexpr int kMostTasks = 65536;
  auto flags = std::make_shared<TrainFlags>();
  // Whatever it was called by, and wherever that is now.
  flags->command = {"/proc/self/exe"};
  flags->command.insert(flags->command.end(), command_line.begin() + 1, command_line.end());
  CLI::App* command = app.add_subcommand("train", "Train a model as a configuration describes it");
  AddJobFlags(command, flags->job);
  command
      ->add_option("--strategy", flags->job.strategy,
                   "one_device, mirrored, multi_worker_mirrored, central_storage or local_sgd (as "
                   "--devices and the workers have it)")
      ->type_name("NAME")
      ->check(NotEmpty());
  command
      ->add_option("--workers", flags->job.workers,
                   "Processes that train together: started on this machine, or as many as the "
                   "cluster has (1)")
      ->type_name("N")
      ->check(InRange(1, kMostTasks));
  command->add_option("--ps", flags->job.ps, "Parameter servers (0)")
      ->type_name("N")
      ->check(InRange(0, kMostTasks));
  AddOverride(command, flags->job, "--steps", "train.steps", "N",
              "Stop after so many steps, counted from the first ever, 0 to 10^12; 0: no limit. In "
              "place of both limits of the configuration");
  AddOverride(command, flags->job, "--epochs", "train.epochs", "N",
              "Stop after so many epochs, in the same way (1)");
  AddOverride(command, flags->job, "--check-replicas", "train.check_replicas", "N",
              "Compare the workers' variables every N steps, bit by bit; 0: at the end (0)");
  AddOverride(command, flags->job, "--logdir", "monitor.logdir", "DIR", "Folder of event files");
  command
      ->add_option("--checkpoint-dir", flags->checkpoint_dir,
                   "Folder in which the end of the run is saved; without --resume it must hold no "
                   "checkpoint [checkpoint.dir]")
      ->type_name("DIR")
      ->check(NotEmpty());
  command->add_flag("--resume", flags->resume,
                    "Go on from the newest checkpoint, made with the same settings");
  AddSummary(command, flags->summary_path);
  command->add_flag("--quiet", flags->quiet, "Print errors only");
  AddClusterFlags(command, flags->job.cluster);
  AddSecurityFlags(command, flags->job.security);
  command->callback([flags, &signals, &outcome] { outcome = Train(*flags, signals); });
}

void AddEvaluate(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure a checkpoint on the test data");
  AddJobFlags(command, flags->job);
  AddCheckpoint(command, flags->checkpoint);
  AddSummary(command, flags->summary_path);
  command->add_flag("--quiet", flags->quiet, "Print errors only");
  command->callback([flags, &outcome] { outcome = Evaluate(*flags); });
}

void AddPredict(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* command = app.add_subcommand(
      "predict", "Print the class of each sample: file, index, class, probability");
  AddJobFlags(command, flags->job);
  AddCheckpoint(command, flags->checkpoint);
  command->add_option("INPUT", flags->inputs, "IDX files of images, plain or gzip")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->required();
  command->callback([flags, &outcome] { outcome = Predict(*flags); });
}

void AddBenchTransport(CLI::App& bench, Outcome& outcome) {
  auto flags = std::make_shared<BenchTransportFlags>();
  CLI::App* command = bench.add_subcommand(
      "transport", "Round trips and streams between two processes, beside memcpy");
  command->add_option("--links", flags->links, "Kinds of links: shm, ucx, grpc, grpc-tls (all)")
      ->type_name("LINK,LINK")
      ->check(NotEmpty())
      ->delimiter(',');
  command
      ->add_option("--repeats", flags->repeats,
                   fmt::format("How often, 1 to 10000 ({})", flags->repeats))
      ->type_name("N")
      ->check(InRange(1, 10000));
  command->add_flag("--json", flags->json, "One JSON object instead of a table");
  command->callback([flags, &outcome] { outcome = BenchTransport(*flags); });
}

void AddBenchCluster(CLI::App& bench, Outcome& outcome) {
  auto flags = std::make_shared<BenchClusterFlags>();
  CLI::App* command = bench.add_subcommand(
      "cluster", "Steps of trivial tensors between processes, each with a server");
  command->add_option("--links", flags->links, "Kinds of links: shm, ucx, grpc (all)")
      ->type_name("LINK,LINK")
      ->delimiter(',')
      ->check(CLI::IsMember({"auto", "shm", "ucx", "grpc"}));
  const auto add_count = [&](const std::string& name, auto& value, const std::string& help, int low,
                             int high) {
    command->add_option(name, value, fmt::format("{}, {} to {} ({})", help, low, high, value))
        ->type_name("N")
        ->check(InRange(low, high));
  };
  add_count("--tasks", flags->tasks, "Processes", 2, 20);
  add_count("--steps", flags->steps, "Steps measured", 1, 1 << 24);
  add_count("--warmup", flags->warmup, "Steps before", 0, 1 << 24);
  add_count("--elements", flags->elements, "Elements of each tensor", 1, 1 << 28);
  command->add_flag("--json", flags->json, "One JSON object instead of a table");
  command->callback([flags, &outcome] { outcome = BenchCluster(*flags); });
}

void AddBenchStep(CLI::App& bench, Outcome& outcome) {
  auto flags = std::make_shared<BenchStepFlags>();
  CLI::App* step = bench.add_subcommand("step", "A full training step on made-up data");
  const auto add_count = [&](const std::string& name, auto& value, const std::string& help, int low,
                             int high) {
    step->add_option(name, value, fmt::format("{}, {} to {} ({})", help, low, high, value))
        ->type_name("N")
        ->check(InRange(low, high));
  };
  step->add_option("--model", flags->model,
                   fmt::format("A model of `lockstep models` ({})", flags->model))
      ->type_name("NAME")
      ->check(NotEmpty());
  step->add_option("--optimizer", flags->optimizer,
                   fmt::format("sgd, momentum, adam... ({})", flags->optimizer))
      ->type_name("NAME")
      ->check(NotEmpty());
  add_count("--batch", flags->batch, "Samples of a step", 1, 1 << 20);
  add_count("--steps", flags->steps, "Steps measured", 1, 1 << 30);
  add_count("--warmup", flags->warmup, "Steps before", 0, 1 << 30);
  step->add_option("--precision", flags->precision,
                   fmt::format("fp32 or bf16 ({})", flags->precision))
      ->type_name("NAME")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  add_count("--threads-per-device", flags->threads, "Threads", 1, 1024);
  step->add_flag("--profile", flags->profile, "Print the time of each kernel");
  step->add_flag("--plan", flags->plan, "Print the plan and stop");
  step->callback([flags, &outcome] { outcome = BenchStep(*flags); });
}

void AddBench(CLI::App& app, Outcome& outcome) {
  CLI::App* bench = app.add_subcommand("bench", "Measure parts of the system");
  bench->require_subcommand(1);
  AddBenchStep(*bench, outcome);
  AddBenchTransport(*bench, outcome);
  AddBenchAllReduce(*bench, outcome);
  AddBenchCluster(*bench, outcome);
}

// Standard output may be a full disk, or a pipe that nobody reads any more.
int CheckOutput(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) {
    return code;
  }
  PrintError(flushed || error == 0
                 ? Unavailable("standard output: cannot write: an earlier write failed")
                 : ErrnoStatus(error, "standard output", "write"));
  return code == static_cast<int>(ExitCode::kDone) ? static_cast<int>(ExitCode::kOther) : code;
}

int Run(int argc, char** argv, std::optional<StopSignals>& signals) {
  CLI::App app("Lockstep: distributed training to the same bits");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  Outcome outcome;
  const std::span<char* const> command_line(argv, static_cast<size_t>(argc));
  AddTrain(app, command_line, signals, outcome);
  AddEvaluate(app, outcome);
  AddPredict(app, outcome);
  AddBench(app, outcome);
  AddCheckpointCommands(app, outcome);
  AddClusterCommands(app, outcome);
  app.add_subcommand("models", "List the models")->callback([&outcome] { outcome = ListModels(); });
  app.add_subcommand("ops", "List the ops")->callback([&outcome] { outcome = ListOps(); });
  if (const Status status = CheckCommand(app, command_line.subspan(1)); !status.ok()) {
    PrintError(status);
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    PrintError(UsageError(app, error));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (!outcome.status.ok()) {
    PrintError(outcome.status);
  }
  return static_cast<int>(outcome.code);
}

}  // namespace

int main(int argc, char** argv) {
  RestoreHangUp();
  if (const Status status = HoldStandardStreams(); !status.ok()) {
    PrintError(status);
    return static_cast<int>(ExitCode::kOther);
  }
  // Unless somebody looks for a fault in gRPC itself, with its own variables.
  if (std::getenv("GRPC_VERBOSITY") == nullptr && std::getenv("GRPC_TRACE") == nullptr) {
    net::grpc_link::SilenceGrpcLog();
  }
  // Before anything else, so that a run can be stopped in order from its first moment on.
  std::optional<StopSignals> signals;
  if (argc > 1 && std::string_view(argv[1]) == "train") {
    signals.emplace();
  }
  try {
    return CheckOutput(Run(argc, argv, signals));
  } catch (const std::bad_alloc&) {
    std::fputs("lockstep: there is not enough memory\n", stderr);
    return static_cast<int>(ExitCode::kOther);
  } catch (const std::exception& error) {
    // CLI11's own set-up.
    std::fprintf(stderr, "lockstep: %s\n", error.what());
    return static_cast<int>(ExitCode::kOther);
  }
}
