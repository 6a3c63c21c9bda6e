#include "lockstep/cli/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "lockstep/cli/signals.h"
#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/cluster/server/server.h"

namespace lockstep::cli {
namespace {

// Stops the server at the first SIGINT or SIGTERM, on a thread of its own. A server that still
// waits for the others has nothing to lose: the process ends.
class Stopper {
 public:
  Stopper(StopSignals& signals, cluster::Server& server, std::chrono::milliseconds timeout)
      : thread_([this, &signals, &server, timeout] {
          constexpr std::chrono::milliseconds kLook{50};
          while (!done_.load()) {
            if (!signals.Received()) {
              std::this_thread::sleep_for(kLook);
              continue;
            }
            if (server.state() != cluster::Server::State::kStarted) {
              std::_Exit(static_cast<int>(ExitCode::kInterrupted));
            }
            (void)server.Stop(Deadline::After(timeout));
            return;
          }
        }) {}

  ~Stopper() {
    done_.store(true);
    thread_.join();
  }

  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

Outcome Serve(const ServerFlags& flags) {
  StopSignals signals;
  cluster::Resolution here;
  if (Outcome outcome = ResolveClusterHere(flags.cluster, here); !outcome.status.ok()) {
    return outcome;
  }
  if (!here.task || here.is_evaluator()) {
    return Fail(ExitCode::kUsage,
                InvalidArgument("this process is no task of a cluster: give --cluster FILE, --job "
                                "and --task, or set TF_CONFIG"));
  }
  cluster::ServerDef::Options def_options;
  def_options.job = here.task->job;
  def_options.index = here.task->index;
  def_options.transport = flags.transport;
  if (!flags.data_ports.empty()) {
    const Result<cluster::PortRange> range = cluster::PortRange::Parse(flags.data_ports);
    if (!range.ok()) {
      return Fail(ExitCode::kUsage, range.status().With("--data-ports"));
    }
    def_options.data_ports = *range;
  }
  Result<cluster::ServerDef> def = cluster::ServerDef::Create(here.cluster, def_options);
  Result<cluster::SecurityOptions> security =
      cluster::ReadSecurity(flags.security, cluster::CollectVariables(environ));
  for (const Status& status : {def.status(), security.status()}) {
    if (!status.ok()) {
      return Fail(ExitCode::kUsage, status);
    }
  }
  Log log(std::cerr, LogLevel::kInfo);
  Result<std::unique_ptr<cluster::Server>> server =
      cluster::Server::Create(*std::move(def), {.security = *std::move(security),
                                                .heartbeat = Milliseconds(flags.heartbeat_seconds),
                                                .devices = flags.devices,
                                                .threads_per_device = flags.threads_per_device,
                                                .log = &log});
  if (!server.ok()) {
    return Fail(ExitCode::kUsage, server.status());
  }
  const std::chrono::milliseconds timeout = Milliseconds(flags.timeout_seconds);
  const Stopper stopper(signals, **server, timeout);
  Status status = (*server)->Start(Deadline::After(timeout));
  if (!status.ok()) {
    return Fail(CodeOfStart(status), status);
  }
  fmt::print("serving {} as {}\n", (*server)->target(), here.task->ToString());
  std::fflush(stdout);
  status = (*server)->Join(Deadline::Infinite());
  if (status.code() == StatusCode::kCancelled) {
    return Done();
  }
  const Status stopped = (*server)->Stop(
      Deadline::After(status.ok() ? timeout : std::chrono::milliseconds(1000)), status);
  status = status.ok() ? stopped : status;
  return status.ok() ? Done() : Fail(CodeOf(status), status);
}

}  // namespace lockstep::cli
