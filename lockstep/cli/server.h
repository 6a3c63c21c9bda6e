// `lockstep server`: one task of a cluster as a process, which serves until the job is over.
#pragma once

#include <string>

#include "lockstep/cli/cluster.h"
#include "lockstep/cli/command.h"
#include "lockstep/cluster/security/security_flags.h"

namespace lockstep::cli {

struct ServerFlags {
  ClusterSourceFlags cluster;
  int devices = 1;
  int threads_per_device = 1;
  // To wait for the other tasks at the start, and for them to leave at the end.
  double timeout_seconds = 60;
  double heartbeat_seconds = 5;
  std::string transport = "auto";
  // "5000-5010"; empty: any free ports.
  std::string data_ports;
  cluster::SecurityFlags security;
};

// Ends with 0 when the job is over or after SIGTERM, with 3 when a task is lost or missing.
Outcome Serve(const ServerFlags& flags);

}  // namespace lockstep::cli
