#include "lockstep/cluster/launch/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/launch/descendants.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

Status CheckOptions(const LaunchOptions& options) {
  if (options.workers < 1 || options.ps < 0 || options.workers > kMaxLaunchTasks ||
      options.ps > kMaxLaunchTasks || options.workers + options.ps > kMaxLaunchTasks) {
    return InvalidArgument(
        fmt::format("{} workers and {} parameter servers: allowed are 1 worker or more and {} "
                    "tasks in all",
                    options.workers, options.ps, kMaxLaunchTasks));
  }
  if (options.command.empty() || options.command[0].empty()) {
    return InvalidArgument("the program to launch is missing");
  }
  return OkStatus();
}

sigset_t GuardSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    sigaddset(&set, number);
  }
  return set;
}

// Waits for the end of the supervisor, passing signals on to it. Its status as of waitpid.
int Guard(pid_t supervisor) {
  const sigset_t set = GuardSignals();
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(supervisor, &status, WNOHANG);
    if (ended == supervisor) {
      return status;
    }
    const int number = sigwaitinfo(&set, nullptr);
    if (number > 0 && number != SIGCHLD) {
      kill(supervisor, number);
    }
  }
}

}  // namespace

Result<int> Launch(const LaunchOptions& options) {
  LS_TRY(CheckOptions(options));
  LS_TRY(BecomeSubreaper());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoStatus(errno, "pipe", "create");
  }
  Descriptor watched(ends[0]);
  Descriptor held(ends[1]);
  // Before the fork, so that no signal is missed between the two.
  const sigset_t set = GuardSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    return ErrnoStatus(errno, "fork", "start the supervisor");
  }
  if (supervisor == 0) {
    held.Close();
    // A group of its own: what a terminal sends to the group of the guard comes through the guard.
    setpgid(0, 0);
    _exit(SuperviseTasks(options, watched.get()));
  }
  setpgid(supervisor, supervisor);
  watched.Close();
  const int status = Guard(supervisor);
  LS_TRY(KillDescendants(Deadline::After(kKillTime)));
  if (WIFSIGNALED(status)) {
    return Unavailable(
        fmt::format("the supervisor of the tasks was ended by signal {}; all tasks "
                    "are ended",
                    WTERMSIG(status)));
  }
  return WEXITSTATUS(status);
}

}  // namespace lockstep::cluster
