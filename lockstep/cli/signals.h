// Requests to stop a run: SIGINT, SIGTERM, SIGHUP, and a reader of standard output that has gone.
//
//   StopSignals signals;
//   signals.WatchOutput();
//   while (!signals.Received()) { ... one step ... }
//
// The first one is noted, to be looked at between steps. A signal that comes kAgain or more after
// the first ends the process at once, by that signal, whatever it does: a step may take minutes.
// What comes sooner is the same request: `timeout` and terminals signal a process and its group.
// A signal that was ignored when the program started (nohup, a shell's background job) stays so.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "lockstep/base/descriptor.h"

namespace lockstep::cli {

// Gives SIGHUP its ordinary effect, or none where it was ignored, in place of UCX's debugging aid.
void RestoreHangUp();

class StopSignals {
 public:
  static constexpr std::chrono::milliseconds kAgain{200};

  // Takes the signals over for the whole process, and makes errors of SIGPIPE and SIGXFSZ for the
  // rest of its life: what was done can then still be saved. Make it before any other thread is
  // started.
  StopSignals();

  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  // The signals have their former effect again.
  ~StopSignals();

  // From now on a pipe on standard output that nobody reads any more counts too.
  void WatchOutput();

  // True from the first request on. Thread-safe.
  bool Received() const { return received_.load(std::memory_order_acquire); }

 private:
  void Watch();
  void Wake() const;

  sigset_t stop_set_;
  sigset_t saved_mask_;
  internal::Descriptor signals_;
  // Wakes the watcher to look at the next two.
  internal::Descriptor wake_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> watch_output_ = false;
  std::atomic<bool> received_ = false;
  std::thread watcher_;
};

}  // namespace lockstep::cli
