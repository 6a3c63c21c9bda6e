#include "lockstep/cli/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Runs before the constructors of libraries. That of UCX puts a handler into the place of SIGHUP's,
// after which nobody can see that it was ignored; so it is blocked too, which UCX leaves alone.
// System calls, because sanitizers are not ready for the functions of the C library here.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) void KeepHangUpIgnored(
    int /*count*/, char** /*arguments*/, char** /*environment*/) {
  constexpr size_t kMaskBytes = 8;
  void* action[16] = {};  // The kernel's structure, which begins with the handler.
  if (syscall(SYS_rt_sigaction, SIGHUP, nullptr, action, kMaskBytes) == 0 &&
      action[0] == reinterpret_cast<void*>(SIG_IGN)) {
    const uint64_t mask = uint64_t{1} << (SIGHUP - 1);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, nullptr, kMaskBytes);
  }
}

__attribute__((section(".preinit_array"),
               used)) void (*const kKeepHangUpIgnored)(int, char**, char**) = KeepHangUpIgnored;

// Without those that are ignored or blocked already.
sigset_t StopSet() {
  sigset_t set;
  sigset_t blocked;
  sigemptyset(&set);
  sigemptyset(&blocked);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN &&
        sigismember(&blocked, number) == 0) {
      sigaddset(&set, number);
    }
  }
  return set;
}

// Standard output if it has a reader who can go away; otherwise -1, which poll passes over.
int WatchedOutput() {
  struct stat info = {};
  if (fstat(STDOUT_FILENO, &info) != 0) {
    return -1;
  }
  return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) ? STDOUT_FILENO : -1;
}

// Ends the process as if nobody had taken the signal over.
void DieOf(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  kill(getpid(), number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

void RestoreHangUp() {
  struct sigaction action = {};
  if (sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(SIGHUP, &action, nullptr);
  }
}

StopSignals::StopSignals()
    : stop_set_(StopSet()),
      saved_mask_(),
      signals_(signalfd(-1, &stop_set_, SFD_NONBLOCK | SFD_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);
  if (signals_.get() < 0 || wake_.get() < 0) {
    return;  // The signals keep their ordinary effect.
  }
  // The watcher and all later threads inherit the mask, so that the signals wait to be read.
  pthread_sigmask(SIG_BLOCK, &stop_set_, &saved_mask_);
  watcher_ = std::thread([this] { Watch(); });
}

StopSignals::~StopSignals() {
  if (!watcher_.joinable()) {
    return;
  }
  ending_.store(true, std::memory_order_release);
  Wake();
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &saved_mask_, nullptr);
}

void StopSignals::WatchOutput() {
  watch_output_.store(true, std::memory_order_release);
  Wake();
}

void StopSignals::Wake() const {
  const uint64_t one = 1;
  // An eventfd far from its limit takes it.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void StopSignals::Watch() {
  std::optional<Clock::time_point> first;
  std::array<pollfd, 3> watched = {
      {{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {-1, 0, 0}}};
  while (true) {
    if (poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) {
        continue;
      }
      return;
    }
    if (watched[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t read_bytes = read(wake_.get(), &count, sizeof(count));
      if (ending_.load(std::memory_order_acquire)) {
        return;
      }
      if (watch_output_.exchange(false, std::memory_order_acq_rel)) {
        watched[2].fd = WatchedOutput();
        continue;
      }
    }
    if (watched[2].revents != 0) {
      received_.store(true, std::memory_order_release);
      watched[2].fd = -1;
    }
    signalfd_siginfo info = {};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const Clock::time_point now = Clock::now();
      received_.store(true, std::memory_order_release);
      if (!first.has_value()) {
        first = now;
      } else if (now - *first >= kAgain) {
        DieOf(static_cast<int>(info.ssi_signo));
      }
    }
  }
}

}  // namespace lockstep::cli
