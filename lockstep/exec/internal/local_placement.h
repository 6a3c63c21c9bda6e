// LocalPlacement: where the nodes of a graph that may grow run in one process. Nodes keep their
// devices; jobs and tasks that they name are this process. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/pass/place.h"

namespace lockstep::exec {

class LocalPlacement {
 public:
  // The graph must outlive it. There is at least one device.
  LocalPlacement(const Graph& graph, int num_devices);

  // By node id: full device names (pass::LocalDeviceName).
  Result<std::vector<std::string>> Devices() LS_EXCLUDES(mu_);

  // The nodes name no device but the first: nothing has to be placed.
  bool Trivial() LS_EXCLUDES(mu_);

 private:
  const Graph& graph_;
  const int num_devices_;
  Mutex mu_;
  pass::Placement placement_ LS_GUARDED_BY(mu_);
  // Nodes that Trivial has looked at.
  size_t seen_ LS_GUARDED_BY(mu_) = 0;
  bool trivial_ LS_GUARDED_BY(mu_) = true;
};

}  // namespace lockstep::exec
