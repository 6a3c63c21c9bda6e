// ReplicaDeviceSetter: a device function that puts variables on parameter server tasks and
// everything else on a worker, as between-graph replication does.
//
//   ReplicaDeviceOptions options{.ps_tasks = 2, .worker_device = "/job:worker/task:1"};
//   DeviceScope scope(b, ReplicaDeviceSetter(options));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::pass {

// Chooses a task, from 0 to the number of tasks less one, for a node.
using PsStrategy = std::function<Result<int>(const NodeSpec& node)>;

// The load that a node puts on its task.
using LoadFunction = std::function<Result<double>(const NodeSpec& node)>;

// 0, 1, 2... and again from 0.
PsStrategy RoundRobinStrategy(int num_tasks);

// By SHA-256 of "NAME_SEED": the same task for the same name, whatever else the graph holds.
PsStrategy RandomStrategy(int num_tasks, int64_t seed = 0);

// The task with the least load so far, of several the first. Depends on the order of creation.
PsStrategy GreedyLoadBalancingStrategy(int num_tasks, LoadFunction load);

// Bytes of a variable, from its attributes `dtype` and `shape`.
Result<double> ByteSizeLoad(const NodeSpec& node);

struct ReplicaDeviceOptions {
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // What scopes inside say is kept, and the function fills in what they leave open. False: a node
  // with any device of its own is left alone.
  bool merge_devices = true;
  std::vector<std::string> ps_ops = {"Variable"};
  // None: round robin.
  PsStrategy ps_strategy = nullptr;
};

// Null, which a DeviceScope takes as nothing, if there are no ps tasks. What is malformed is
// reported when a node is made. The function counts what it has placed: copies share the count, and
// it is used by one thread at a time.
DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options);

}  // namespace lockstep::pass
