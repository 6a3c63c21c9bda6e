#include "lockstep/cli/worker_task.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/train/fingerprint.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kFingerprintKey = "train/fingerprint";
// What the others have to notice why a task gave up, and the chief to see them leave.
constexpr std::chrono::milliseconds kLeaveTimeout{10'000};

// Ends the process at the first signal, as long as it lives: while a task waits for the others.
class EndOnSignal {
 public:
  explicit EndOnSignal(const StopSignals& signals)
      : thread_([this, &signals] {
          constexpr std::chrono::milliseconds kLook{50};
          while (!over_.load()) {
            if (signals.Received()) {
              std::_Exit(static_cast<int>(ExitCode::kInterrupted));
            }
            std::this_thread::sleep_for(kLook);
          }
        }) {}

  ~EndOnSignal() {
    over_.store(true);
    thread_.join();
  }

  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// The chief first, then the others in the order of the cluster.
std::vector<net::PeerId> Members(const cluster::ClusterSpec& cluster) {
  std::vector<net::PeerId> members;
  const int chief = cluster.NumberOf(*cluster.chief()).value_or(0);
  members.push_back(chief);
  for (int number = 0; number < cluster.size(); ++number) {
    if (number != chief) {
      members.push_back(number);
    }
  }
  return members;
}

}  // namespace

WorkerTask::WorkerTask(const TrainPlace& place, const train::Config& config)
    : place_(place),
      start_timeout_(Milliseconds(config.cluster.start_timeout)),
      step_timeout_(Milliseconds(config.cluster.step_timeout)) {}

WorkerTask::~WorkerTask() {
  // An end without Leave: those who wait for this task in a call learn of it at once.
  if (server_ != nullptr && server_->state() == cluster::Server::State::kStarted) {
    (void)Leave(Unavailable("it ended early"));
  }
}

Outcome WorkerTask::Start(const TrainPlace& place, const JobFlags& flags,
                          const train::Config& config, const StopSignals& signals,
                          std::unique_ptr<WorkerTask>& task) {
  Result<cluster::SecurityOptions> security =
      cluster::ReadSecurity(flags.security, cluster::CollectVariables(environ));
  if (!security.ok()) {
    return Fail(ExitCode::kUsage, security.status());
  }
  Result<cluster::ServerDef> def =
      cluster::ServerDef::Create(place.here.cluster, {.job = place.here.task->job,
                                                      .index = place.here.task->index,
                                                      .transport = config.cluster.transport});
  if (!def.ok()) {
    return Fail(ExitCode::kUsage, def.status());
  }
  auto made = std::make_unique<WorkerTask>(place, config);
  Result<std::unique_ptr<cluster::Server>> server = cluster::Server::Create(
      std::move(def).value(), {.security = std::move(security).value(),
                               .heartbeat = Milliseconds(config.cluster.heartbeat)});
  if (!server.ok()) {
    return Fail(ExitCode::kUsage, server.status());
  }
  made->server_ = std::move(server).value();
  const EndOnSignal end_on_signal(signals);
  const Deadline deadline = Deadline::After(made->start_timeout_);
  Status status = made->server_->Start(deadline);
  if (status.ok()) {
    status = made->server_->LinkTasks(deadline);
  }
  if (!status.ok()) {
    const ExitCode code = CodeOfStart(status);
    return Fail(code, std::move(status));
  }
  task = std::move(made);
  return Done();
}

Status WorkerTask::CompareWithChief(const std::string& fingerprint, const Deadline& deadline) {
  cluster::CoordinatorClient& coordinator = *server_->coordinator();
  const std::string key(kFingerprintKey);
  if (place_.is_chief()) {
    return coordinator.Insert(key, fingerprint, /*overwrite=*/true, deadline);
  }
  LS_ASSIGN_OR_RETURN(const std::string chiefs, coordinator.Get(key, deadline));
  LS_ASSIGN_OR_RETURN(const train::FingerprintDifferences differences,
                      train::CompareFingerprints(chiefs, fingerprint,
                                                 {.stored = "for the chief", .current = "here"}));
  std::vector<train::FingerprintDifference> all = differences.settings;
  all.insert(all.end(), differences.rounding.begin(), differences.rounding.end());
  if (all.empty()) {
    return OkStatus();
  }
  std::string texts;
  for (const train::FingerprintDifference& difference : all) {
    texts += fmt::format("{}{}", texts.empty() ? "" : "; ", difference.text);
  }
  return FailedPrecondition(fmt::format("{} would train something else than the chief: {}",
                                        place_.here.task->ToString(), texts));
}

Outcome WorkerTask::Meet(const std::string& fingerprint, int parts, const StopSignals& signals) {
  const EndOnSignal end_on_signal(signals);
  const Deadline deadline = Deadline::After(start_timeout_);
  Status status = CompareWithChief(fingerprint, deadline);
  if (!status.ok()) {
    const bool differs = status.code() == StatusCode::kFailedPrecondition;
    const ExitCode code = differs ? ExitCode::kUsage : CodeOf(status);
    return Fail(code, std::move(status));
  }
  Result<std::unique_ptr<collective::Group>> group = collective::Group::Create(
      server_->transport(),
      {.name = "train", .generation = 1, .tasks = Members(place_.here.cluster), .replicas = parts},
      deadline);
  if (!group.ok()) {
    return Fail(CodeOf(group.status()), group.status());
  }
  group_ = std::move(group).value();
  workers_ = std::make_unique<strategy::GroupWorkers>(*group_, step_timeout_);
  return Done();
}

Status WorkerTask::Cause(Status status) const {
  // Who gives up tells the coordinator before it closes its links.
  const Status reason = server_->failure();
  return status.code() == StatusCode::kUnavailable && !reason.ok() ? reason : status;
}

Status WorkerTask::Leave(const Status& outcome) {
  if (group_ != nullptr && !outcome.ok()) {
    group_->Abort(outcome);
  }
  return server_->Stop(Deadline::After(kLeaveTimeout), outcome);
}

}  // namespace lockstep::cli
