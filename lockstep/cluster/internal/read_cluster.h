// Jobs and tasks from the tree of a description, whatever its format.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster::internal {

// Refuses an address that names no host, and one without a port unless it may have none.
Status CheckTaskAddress(const TaskId& id, const net::Address& address, net::PortZero zero);

// Which job names are good: any that a device name can hold, or TensorFlow's roles only.
enum class JobNames { kAny, kRoles };

// {"worker": ["a:1", "b:1"], "ps": {"0": "c:1"}}. A job of null or without tasks is empty. Errors
// stand at the key or value at fault.
Result<ClusterSpec::Jobs> ReadJobs(const Node& node, const Document& document, JobNames names);

// {"type": "worker", "index": 0}, with the keys `ignored` allowed besides. No range check: the
// cluster is not known here.
Result<TaskId> ReadTask(const Node& node, const Document& document, JobNames names,
                        std::span<const std::string_view> ignored);

// A fault at the first member whose key is not among `known`, with the nearest of them.
Status CheckKeys(const Node& object, std::string_view what, const Document& document,
                 std::span<const std::string_view> known);

// ", did you mean 'worker'?" for a misspelt role, "worker_hosts" and "parameter_server" included.
std::string DidYouMeanRole(std::string_view name);

}  // namespace lockstep::cluster::internal
