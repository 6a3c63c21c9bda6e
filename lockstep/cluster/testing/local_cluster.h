// LocalCluster: a cluster on loopback whose servers live in this process, one thread each to start
// and stop them. For tests and benchmarks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/server/server.h"

namespace lockstep::cluster {

// Ports of 127.0.0.1 that nobody listened at a moment ago, all different.
std::vector<int> FreePorts(int count);

// Jobs with so many tasks each, at free ports of 127.0.0.1.
ClusterSpec LocalSpec(const std::map<std::string, int>& jobs);

class LocalCluster {
 public:
  LocalCluster(ClusterSpec spec, const ServerOptions& options);
  // Tensors travel by `transport`; options by the number of the task.
  LocalCluster(ClusterSpec spec, const std::string& transport,
               const std::function<ServerOptions(int)>& options);

  const ClusterSpec& spec() const { return spec_; }

  int size() const { return static_cast<int>(servers_.size()); }

  Server& server(int number) { return *servers_[static_cast<size_t>(number)]; }

  // As kill -9 would, as far as the others can see.
  void Kill(int number) { servers_[static_cast<size_t>(number)].reset(); }

  // Calls `run` for every server that was not killed, each in a thread; the first error by number.
  Status ForEach(const std::function<Status(Server&)>& run);

  Status Start(const Deadline& deadline) {
    return ForEach([&](Server& server) { return server.Start(deadline); });
  }

  Status Stop(const Deadline& deadline) {
    return ForEach([&](Server& server) { return server.Stop(deadline); });
  }

 private:
  const ClusterSpec spec_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace lockstep::cluster
