// Placement: gives every node of a graph a device. Rules, in this order:
//
//   1. A node that was placed before stays.
//   2. Nodes that share storage share a device: a variable, and what writes it. So do nodes with
//      `colocate_with` and the node named there.
//   3. Full and partial device names of the nodes are granted.
//   4. Where that leaves a choice, a source without inputs (a constant) goes to its consumers if
//      they agree; what only reads a variable (Identity, StopGradient, Gather) goes where that is.
//   5. The first device in the order of the DeviceSet.
//
// The whole graph is placed, not only what one step needs, so that a variable is in the same place
// in every step. Pure, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/pass/device_set.h"

namespace lockstep::pass {

struct PlacementOptions {
  // A wish for a kind or index of device that its task does not have, for a kind that the op has
  // no kernel for, or that contradicts the node it shares a device with, is dropped instead of an
  // error. Job and task are always granted or refused.
  bool soft = false;
  // Names of jobs, replicas and tasks are passed over: all devices are in one process.
  bool any_task = false;
};

struct Placement {
  // By node id: canonical full names.
  std::vector<std::string> devices;
  // One line for each wish that was dropped.
  std::vector<std::string> notes;
};

// `earlier` (null: none) is the placement of the first nodes of this graph, from before it grew.
// Errors are INVALID_ARGUMENT and name the op, its line, the wish and what is available.
Result<Placement> Place(const Graph& graph, const DeviceSet& devices,
                        const PlacementOptions& options, const Placement* earlier = nullptr);

// One line per node in order of creation: "conv1/filter (Variable): /job:ps/...".
std::string DescribePlacement(const Graph& graph, const Placement& placement);

// The variable that a value is, or whose storage an op returns; null if it is no variable.
const Node* VariableOf(const Value& value);

}  // namespace lockstep::pass
