#include "lockstep/collective/internal/host_level.h"

#include <algorithm>

namespace lockstep::collective::internal {
namespace {

// Each slice and node has room in the staging memory: some lines of a cache at least.
constexpr size_t kMostPiecesStaged = kStagingBytes / 256;

std::vector<ReplicaNode> NodesOfHost(const GroupInfo& group, std::span<const int> first_members,
                                     size_t host) {
  const int64_t begin = group.map.range(first_members[host]).begin;
  const int64_t end = group.map.range(first_members[host + 1] - 1).end;
  return NodesOf(begin, end, group.map.replicas());
}

// Adds the nodes of all hosts to `nodes`, and returns where those of each begin.
std::vector<size_t> NodesOfHosts(const GroupInfo& group, std::span<const int> first_members,
                                 std::vector<ReplicaNode>* nodes) {
  std::vector<size_t> first = {0};
  for (size_t host = 0; host + 1 < first_members.size(); ++host) {
    const std::vector<ReplicaNode> mine = NodesOfHost(group, first_members, host);
    nodes->insert(nodes->end(), mine.begin(), mine.end());
    first.push_back(nodes->size());
  }
  return first;
}

std::vector<net::PeerId> TasksOf(const GroupInfo& group, int begin, int end) {
  return {group.tasks.begin() + begin, group.tasks.begin() + end};
}

}  // namespace

std::unique_ptr<HostLevel> HostLevel::Create(const GroupInfo& group,
                                             std::span<const uint64_t> leaders) {
  std::vector<int> first_members;
  std::vector<uint64_t> hosts;
  int self_host = 0;
  for (int member = 0; member < group.members(); ++member) {
    const uint64_t leader = leaders[static_cast<size_t>(member)];
    if (hosts.empty() || hosts.back() != leader) {
      if (std::find(hosts.begin(), hosts.end(), leader) != hosts.end()) {
        return nullptr;
      }
      hosts.push_back(leader);
      first_members.push_back(member);
    }
    if (member == group.self) {
      self_host = static_cast<int>(hosts.size()) - 1;
    }
  }
  if (hosts.size() == 1 || hosts.size() == leaders.size()) {
    return nullptr;
  }
  first_members.push_back(group.members());
  return std::make_unique<HostLevel>(Private(), group, first_members, self_host);
}

HostLevel::HostLevel(Private, const GroupInfo& group, std::span<const int> first_members, int host)
    : group_(group),
      first_members_(first_members.begin(), first_members.end()),
      host_(host),
      local_{group.transport, group.scope,
             TasksOf(group, first_member(host), first_member(host + 1)),
             group.self - first_member(host)},
      first_node_(NodesOfHosts(group, first_members_, &all_nodes_)),
      tree_(all_nodes_, group.map.replicas()) {
  int smallest = SharedMemory::kMaxMembers;
  for (int other = 0; other < hosts(); ++other) {
    smallest = std::min(smallest, first_member(other + 1) - first_member(other));
  }
  for (int member = 0; member < group.members(); ++member) {
    most_nodes_ = std::max(most_nodes_, group.num_nodes(member));
  }
  slices_ = std::clamp(static_cast<int>(kMostPiecesStaged / most_nodes_), 1, smallest);

  const size_t begin = group.first_node[static_cast<size_t>(first_member(host))];
  size_t next = begin;
  const auto at = static_cast<size_t>(host);
  for (size_t node = first_node_[at]; node < first_node_[at + 1]; ++node) {
    const size_t first = next;
    while (next < group.nodes.size() && group.nodes[next].end <= all_nodes_[node].end) {
      ++next;
    }
    nodes_.push_back(
        {ReduceTree(std::span(group.nodes).subspan(first, next - first), group.map.replicas()),
         first - begin, next - first});
  }
}

int HostLevel::HostOf(int member) const {
  const auto after = std::upper_bound(first_members_.begin(), first_members_.end(), member);
  return static_cast<int>(after - first_members_.begin()) - 1;
}

}  // namespace lockstep::collective::internal
