// ServerDef: what a server is started from: the cluster, which task of it this is, how it talks,
// and what its sessions do by default.
//
//   LS_ASSIGN_OR_RETURN(const ServerDef def, ServerDef::Create(spec, {.job = "ps", .index = 0}));
//   def.address();   // where it listens
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/spec/cluster_spec.h"
#include "lockstep/graph/device_name.h"

namespace lockstep::cluster {

// Defaults of the sessions that a server's master creates; a session's own options win.
struct SessionDefaults {
  // An op whose device does not exist, or has no kernel for it, goes to another one of its task.
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  // Each session has variables of its own, which end with it.
  bool isolate_session_state = false;
  // Of one step; 0 is no limit.
  int64_t operation_timeout_ms = 0;
};

// All ports from `first` to `last`; none if both are 0.
struct PortRange {
  int first = 0;
  int last = 0;

  // "5000" or "5000-5010".
  static Result<PortRange> Parse(std::string_view text);

  friend bool operator==(const PortRange&, const PortRange&) = default;
};

class ServerDef {
 public:
  struct Options {
    // May be left out if the cluster has one job only.
    std::optional<std::string> job = std::nullopt;
    // May be left out if the job has one task only.
    std::optional<int> index = std::nullopt;
    // How tensors travel: auto (the best that both ends have), sim, shm, ucx or grpc.
    std::string transport = "auto";
    // Where to listen instead of the port in the cluster, behind a port mapping; 0 for that port.
    int port = 0;
    // Where data links over ucx come in; none: at any free port. Those over grpc come in at the
    // server's own port, and shm needs none.
    PortRange data_ports = {};
    // Partial device names; with any given, only tasks that match one are waited for and used,
    // and this task itself.
    std::vector<std::string> device_filters = {};
    SessionDefaults session = {};
  };

  // INVALID_ARGUMENT for a bad or a missing option, NOT_FOUND for a task that the cluster lacks.
  static Result<ServerDef> Create(ClusterSpec cluster, Options options);

  const ClusterSpec& cluster() const { return cluster_; }

  const TaskId& task() const { return task_; }

  // The place of the task in the canonical order of the cluster.
  int number() const { return number_; }

  const std::string& transport() const { return transport_; }

  const PortRange& data_ports() const { return data_ports_; }

  const SessionDefaults& session() const { return session_; }

  // Where this server listens.
  const net::Address& address() const { return address_; }

  const std::vector<DeviceName>& device_filters() const { return device_filters_; }

  // Numbers of the tasks that this one waits for and uses: all, or those that the filters let
  // through. Sorted; always with this one.
  std::vector<int> VisibleTasks() const;

 private:
  ServerDef(ClusterSpec cluster, TaskId task, int number, net::Address address)
      : cluster_(std::move(cluster)),
        task_(std::move(task)),
        number_(number),
        address_(std::move(address)) {}

  ClusterSpec cluster_;
  TaskId task_;
  int number_;
  net::Address address_;
  std::string transport_;
  PortRange data_ports_;
  std::vector<DeviceName> device_filters_;
  SessionDefaults session_;
};

}  // namespace lockstep::cluster
