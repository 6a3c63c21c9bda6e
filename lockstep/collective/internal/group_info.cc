#include "lockstep/collective/internal/group_info.h"

#include <utility>

namespace lockstep::collective::internal {
namespace {

std::vector<size_t> FirstNodes(const ReplicaMap& map) {
  std::vector<size_t> first = {0};
  for (int member = 0; member < map.members(); ++member) {
    first.push_back(first.back() + map.nodes(member).size());
  }
  return first;
}

}  // namespace

GroupInfo::GroupInfo(net::Transport& group_transport, std::string group_name, uint64_t group_scope,
                     std::vector<net::PeerId> group_tasks, int self_member, int64_t replicas)
    : transport(group_transport),
      name(std::move(group_name)),
      scope(group_scope),
      tasks(std::move(group_tasks)),
      self(self_member),
      map(replicas, static_cast<int>(tasks.size())),
      nodes(map.all_nodes()),
      first_node(FirstNodes(map)),
      tree(nodes, replicas) {}

std::vector<const void*> AllNodes(const GroupInfo& group, std::span<const void* const> mine,
                                  std::span<const void* const> received) {
  const auto before =
      static_cast<std::ptrdiff_t>(group.first_node[static_cast<size_t>(group.self)]);
  LS_CHECK(mine.size() + received.size() == group.nodes.size());
  std::vector<const void*> all(received.begin(), received.begin() + before);
  all.insert(all.end(), mine.begin(), mine.end());
  all.insert(all.end(), received.begin() + before, received.end());
  return all;
}

}  // namespace lockstep::collective::internal
