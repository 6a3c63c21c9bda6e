// From ranks to tasks: what Slurm and MPI launchers have in common. They number processes and say
// how many run on each host; the cluster follows from that and a port.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster::internal {

struct RankPlace {
  // The place of its node in the list of nodes.
  int node = 0;
  // The number of the rank among those of its node.
  int local = 0;
};

constexpr int kBlock = kMaxTasks;

// Ranks to nodes in rounds: each round gives every node that is not full up to `plane` ranks, in
// order. kBlock fills node after node, 1 deals them out (cyclic).
std::vector<RankPlace> PlaceRanks(const std::vector<int>& tasks_per_node, int plane);

// The cluster of `places` on `hosts`, and this process as `rank` of it. The last
// `options.ps_tasks` ranks are ps. Ports count up per host name, even if a host is listed as two
// nodes. Fails if the ports do not suffice or a host is no host.
Result<Resolution> FromRanks(const std::vector<std::string>& hosts,
                             const std::vector<RankPlace>& places, int rank,
                             const RankOptions& options);

// The variable as a whole number of `min` to `max`; NOT_FOUND if it is not set, INVALID_ARGUMENT
// with its name and value if it is something else.
Result<int> IntVariable(const Variables& variables, std::string_view name, int max, int min = 0);

// Its value, or null.
const std::string* FindVariable(const Variables& variables, std::string_view name);

}  // namespace lockstep::cluster::internal
