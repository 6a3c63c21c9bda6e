#include "lockstep/cli/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::cli {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

StopSignals::~StopSignals() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

bool StopSignals::Received() {
  signalfd_siginfo info{};
  if (!received_ && descriptor_ >= 0 && read(descriptor_, &info, sizeof(info)) == sizeof(info)) {
    received_ = true;
    const sigset_t set = StopSet();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  return received_;
}

}  // namespace lockstep::cli
