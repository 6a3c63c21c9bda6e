#include "lockstep/cluster/internal/rank_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/document.h"

namespace lockstep::cluster::internal {
namespace {

constexpr int kMaxPort = 65535;

}  // namespace

std::vector<RankPlace> PlaceRanks(const std::vector<int>& tasks_per_node, int plane) {
  std::vector<RankPlace> places;
  std::vector<int> used(tasks_per_node.size());
  bool placed = true;
  while (placed) {
    placed = false;
    for (size_t node = 0; node < tasks_per_node.size(); ++node) {
      const int end = std::min(tasks_per_node[node], used[node] + plane);
      for (; used[node] < end; ++used[node]) {
        places.push_back({static_cast<int>(node), used[node]});
        placed = true;
      }
    }
  }
  return places;
}

Result<Resolution> FromRanks(const std::vector<std::string>& hosts,
                             const std::vector<RankPlace>& places, int rank,
                             const RankOptions& options) {
  const int size = static_cast<int>(places.size());
  if (options.ps_tasks < 0 || options.ps_tasks >= size) {
    return InvalidArgument(fmt::format("{} of {} tasks as parameter servers: allowed are 0 to {}",
                                       options.ps_tasks, size, size - 1));
  }
  const int workers = size - options.ps_tasks;
  const auto task_of = [workers](int r) {
    return r < workers ? TaskId{"worker", r} : TaskId{"ps", r - workers};
  };
  ClusterSpec::Jobs jobs;
  std::map<std::string, int> on_host;
  for (int r = 0; r < size; ++r) {
    const RankPlace& place = places[static_cast<size_t>(r)];
    const std::string& host = hosts[static_cast<size_t>(place.node)];
    const int port = options.port_base + on_host[host]++;
    if (options.port_base < 1 || port > kMaxPort) {
      return InvalidArgument(
          fmt::format("port {} for rank {} on {}: allowed are 1 to {}; the port base is {}", port,
                      r, host, kMaxPort, options.port_base));
    }
    Result<net::Address> address = net::Address::Make(host, port);
    if (!address.ok()) {
      return address.status();
    }
    const TaskId id = task_of(r);
    jobs[id.job].emplace(id.index, *address);
  }
  Resolution resolution;
  LS_ASSIGN_OR_RETURN(resolution.cluster, ClusterSpec::FromJobs(std::move(jobs)));
  resolution.task = task_of(rank);
  resolution.facts.push_back({"port base", std::to_string(options.port_base),
                              options.port_base_given ? "--port-base" : "the default"});
  if (options.ps_tasks > 0) {
    resolution.facts.push_back(
        {"ps tasks", fmt::format("{}, the last ranks", options.ps_tasks), "--ps"});
  }
  return resolution;
}

const std::string* FindVariable(const Variables& variables, std::string_view name) {
  const auto it = variables.find(name);
  return it == variables.end() ? nullptr : &it->second;
}

Result<int> IntVariable(const Variables& variables, std::string_view name, int max, int min) {
  const std::string* text = FindVariable(variables, name);
  if (text == nullptr) {
    return NotFound(fmt::format("{} is not set", name));
  }
  int64_t value = 0;
  if (!WholeNumber(*text, max, value) || value < min) {
    return InvalidArgument(fmt::format("{} is {}, a whole number of {} to {} is expected", name,
                                       Quoted(*text), min, max));
  }
  return static_cast<int>(value);
}

}  // namespace lockstep::cluster::internal
