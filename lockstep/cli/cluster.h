// `lockstep cluster`, and what every command that is a task of a cluster needs: flags and
// environment as one description.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/result.h"
#include "lockstep/cli/command.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cli {

struct ClusterSourceFlags {
  std::optional<std::string> spec;
  std::optional<std::string> cluster_file;
  std::optional<std::string> job;
  std::optional<int> task;
  std::optional<std::string> hosts;
  std::optional<std::string> host_file;
  int ps = 0;
  std::optional<int> port_base;
};

// Reads the environment and the files that the flags name. The outcome is for errors.
Outcome ResolveClusterHere(const ClusterSourceFlags& flags, cluster::Resolution& resolution);

// Prints it; `json` for programs.
Outcome ShowCluster(const ClusterSourceFlags& flags, bool json);

}  // namespace lockstep::cli
