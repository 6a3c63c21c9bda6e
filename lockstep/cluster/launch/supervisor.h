// Starts the tasks of a cluster on this machine, passes their output on, and sees to it that they
// end together. States:
//
//   running ---- a task fails, or only ps tasks are left ----> settling (up to `settle`: the others
//      |                                                          |       notice a lost task and
//      |                                                          |       end by themselves)
//      '---- SIGINT, SIGTERM, SIGHUP: passed on ----.             | SIGTERM
//                                                   v             v
//   killing <---- the second signal, or `grace` ---- terminating
//
// A task fails if it ends with another code than 0, or by a signal. The first failure decides the
// outcome; what comes after it is its consequence. Only a task that lost a peer (exit code 3) is
// itself a consequence of one that fails in another way while the launcher still waits. ps tasks
// that are left when all others are done are ended, which is no failure: a parameter server need
// not know when to stop.
// When all tasks have ended, and when the guard ends in any way, every descendant is killed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::cluster {

struct LaunchOptions {
  int workers = 1;
  int ps = 0;
  // Program and arguments.
  std::vector<std::string> command;
  // The first worker writes to the launcher's own output, a terminal if that is one, without a
  // prefix.
  bool first_is_plain = false;
  // "NAME=value", what the tasks get besides TF_CONFIG.
  std::vector<std::string> environment;
  // More than twice the heartbeat of servers, within which they know of a lost peer.
  std::chrono::milliseconds settle{12000};
  // From SIGTERM to SIGKILL, when a task has failed; and when this process was told to stop, the
  // same if nothing.
  std::chrono::milliseconds grace{10000};
  std::optional<std::chrono::milliseconds> stop_grace = std::nullopt;
};

// Exit codes of the program (docs/errors.md); a task's own code is passed on.
struct LaunchExit {
  static constexpr int kOther = 1;
  static constexpr int kUsage = 2;
  static constexpr int kPeer = 3;
  static constexpr int kInterrupted = 5;
};

constexpr int kMaxLaunchTasks = 1024;

// Runs all to the end and returns the exit code: 0 if every task ended with 0; the code of the task
// whose failure decides; kPeer if a signal ended it; kInterrupted if this process was told to stop;
// kUsage if the program cannot be executed. Messages go to standard error, behind the output.
// `guard` is a descriptor that becomes readable when the guard process ends.
// For a process with one thread and nothing else to do.
int SuperviseTasks(const LaunchOptions& options, int guard);

}  // namespace lockstep::cluster
