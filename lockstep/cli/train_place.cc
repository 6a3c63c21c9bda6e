#include "lockstep/cli/train_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kOneDevice = "one_device";
constexpr std::string_view kMirrored = "mirrored";
constexpr std::string_view kMultiWorker = "multi_worker_mirrored";
constexpr std::string_view kCentralStorage = "central_storage";
constexpr std::array kStrategies = {kOneDevice, kMirrored, kMultiWorker, kCentralStorage,
                                    kLocalSgd};
// What the documents describe for later versions.
constexpr std::array<std::string_view, 1> kLater = {"parameter_server"};

Status CheckName(const std::string& name) {
  if (name.empty() ||
      std::find(kStrategies.begin(), kStrategies.end(), name) != kStrategies.end()) {
    return OkStatus();
  }
  if (std::find(kLater.begin(), kLater.end(), name) != kLater.end()) {
    return Unimplemented(fmt::format("--strategy {} is not available in this version", name));
  }
  return InvalidArgument(fmt::format("--strategy: there is no strategy {}{}: allowed are {}",
                                     Quoted(name), DidYouMean(name, kStrategies),
                                     fmt::join(kStrategies, ", ")));
}

// The tasks that train, of a cluster that the environment or flags describe.
Status CheckCluster(const JobFlags& flags, const cluster::Resolution& here) {
  const std::string where = fmt::format("the cluster of {}", Shown(here.family));
  if (here.is_evaluator()) {
    return Unimplemented(fmt::format(
        "this process is the evaluator of {}, which is no member of training: `lockstep evaluate` "
        "measures a checkpoint",
        where));
  }
  if (!here.cluster.chief()) {
    return InvalidArgument(fmt::format(
        "{} has no chief: one of /job:chief/task:0, /job:master/task:0 and /job:worker/task:0 must "
        "be there",
        where));
  }
  if (!here.task) {
    return InvalidArgument(fmt::format(
        "this process is none of the tasks of {}, so it cannot train with them", where));
  }
  if (const Result<int> servers = here.cluster.num_tasks("ps"); servers.ok()) {
    return Unimplemented(fmt::format(
        "parameter servers are not available in this version, and {} has {}", where, *servers));
  }
  const int tasks = here.cluster.size();
  if (flags.workers != 0 && flags.workers != tasks) {
    return InvalidArgument(
        fmt::format("--workers {}, but {} has {} tasks", flags.workers, where, tasks));
  }
  return OkStatus();
}

Status CheckStrategy(const std::string& strategy, int devices, int workers) {
  if (strategy == kOneDevice && devices > 1) {
    return InvalidArgument(
        fmt::format("--strategy one_device runs on one device, --devices asks for {}", devices));
  }
  if (strategy != kMultiWorker && strategy != kLocalSgd && workers > 1) {
    return InvalidArgument(fmt::format(
        "--strategy {} runs in one process, there are {} workers: --strategy multi_worker_mirrored "
        "trains with all of them",
        strategy, workers));
  }
  return OkStatus();
}

}  // namespace

Outcome FindTrainPlace(const JobFlags& flags, TrainPlace& place) {
  const Result<int> devices = ParseDevices(flags.devices);
  if (!devices.ok()) {
    return Fail(ExitCode::kUsage, devices.status());
  }
  if (Status status = CheckName(flags.strategy); !status.ok()) {
    return Fail(ExitCode::kUsage, std::move(status));
  }
  if (flags.ps != 0) {
    return Fail(ExitCode::kUsage,
                Unimplemented(fmt::format(
                    "--ps {} (parameter servers) is not available in this version", flags.ps)));
  }
  if (Outcome outcome = ResolveClusterHere(flags.cluster, place.here); !outcome.status.ok()) {
    return Fail(outcome.code,
                outcome.status.With("where that is not meant: what describes the cluster can be "
                                    "unset to train in this process alone"));
  }
  if (place.here.cluster.size() > 1 || place.here.is_evaluator()) {
    if (Status status = CheckCluster(flags, place.here); !status.ok()) {
      return Fail(ExitCode::kUsage, std::move(status));
    }
    place.kind = TrainPlace::Kind::kWorker;
    place.workers = place.here.cluster.size();
  } else {
    place.workers = std::max(flags.workers, 1);
    place.kind = place.workers > 1 ? TrainPlace::Kind::kLauncher : TrainPlace::Kind::kAlone;
  }
  place.strategy = flags.strategy;
  if (place.strategy.empty()) {
    place.strategy = place.workers > 1 ? kMultiWorker : *devices > 1 ? kMirrored : kOneDevice;
  }
  Status status = CheckStrategy(place.strategy, *devices, place.workers);
  return status.ok() ? Done() : Fail(ExitCode::kUsage, std::move(status));
}

}  // namespace lockstep::cli
