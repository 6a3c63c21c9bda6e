// SimNetwork: the transports of several tasks in one process, joined by a network whose delays and
// faults are scripted. With virtual time nothing takes real time: the clock jumps to the next event
// when every task waits, so that a timeout of a minute is tested in microseconds, and a run is the
// same every time: all that happens depends on the program, the options and the seed.
//
//   SimNetwork network({.num_tasks = 4});
//   network.KillTask(2, std::chrono::milliseconds(5));
//   RunTasks(network, [&](PeerId task) { ... network.transport(task) ... });
//
// With virtual time a task waits in one thread at a time (Waiter), and its deadlines come from
// Transport::After. Without (`virtual_time = false`) a thread delivers by the real clock, and any
// thread may wait in any way. Thread-safe; script faults before the tasks run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/net/transport.h"

namespace lockstep::net {

using SimTime = std::chrono::nanoseconds;  // since the network was made

struct SimOptions {
  int num_tasks = 0;
  std::vector<std::string> names;  // "/job:worker/task:N" if empty
  uint64_t seed = 0;
  SimTime latency = std::chrono::microseconds(10);
  // Added to the latency of each message: uniform below this.
  SimTime jitter = SimTime(0);
  // Messages of different keys may overtake each other where the jitter makes them.
  bool reorder = false;
  double bytes_per_second = 0;             // of each direction of each pair; 0: without limit
  double loss = 0;                         // the share of messages that never arrive
  std::chrono::milliseconds heartbeat{0};  // 0: silent peers are not noticed
  bool virtual_time = true;
};

// What was handed to the network in one direction. Frames that the transport sends by itself, such
// as credit, are not messages.
struct SimCounts {
  int64_t messages = 0;
  int64_t payload_bytes = 0;
};

class SimNetwork {
 public:
  explicit SimNetwork(SimOptions options);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;
  ~SimNetwork();

  int num_tasks() const;
  Transport& transport(PeerId task);
  SimTime now() const;

  // The task ends at `at`, as by kill -9: its peers learn it after one latency.
  void KillTask(PeerId task, SimTime at);
  // ... instead of sending its message number `message`, counted from 0 over all peers.
  void KillTaskAtMessage(PeerId task, int64_t message);
  // As SIGSTOP and SIGCONT: nothing leaves or reaches the task between the two times.
  void StopTask(PeerId task, SimTime from, SimTime until);
  // Message `message` from one task to the other, counted from 0, never arrives.
  void DropMessage(PeerId from, PeerId to, int64_t message);
  // Added to the latency in this direction.
  void DelayLink(PeerId from, PeerId to, SimTime delay);
  // Nothing passes between these tasks and the others between the two times; it arrives later.
  void Partition(const std::set<PeerId>& side, SimTime from, SimTime until);

  SimCounts counts(PeerId from, PeerId to) const;

  // A thread that takes part in the network; the clock stands still while it runs (RunTasks).
  void EnterThread();
  void LeaveThread();

 private:
  class Hub;
  class SimProgress;
  class SimLink;

  std::shared_ptr<Hub> hub_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

// Calls `run` for every task in a thread of its own, and returns when all have returned.
void RunTasks(SimNetwork& network, const std::function<void(PeerId)>& run);

}  // namespace lockstep::net
