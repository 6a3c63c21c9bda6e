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

bool IsBalanced(const ReplicaMap& map) {
  int size = 1;
  for (; size <= map.members(); size *= 2) {
    for (int first = 0; first + size <= map.members(); first += size) {
      const int64_t begin = map.range(first).begin;
      const int64_t end = map.range(first + size - 1).end;
      if (NodesOf(begin, end, map.replicas()).size() != 1) {
        return false;
      }
    }
  }
  return size == 2 * map.members();
}

}  // namespace

GroupInfo::GroupInfo(net::Transport& group_transport, std::string group_name, uint64_t group_scope,
                     std::vector<net::PeerId> group_tasks, int self_member, int64_t replicas)
    : MemberList{group_transport, group_scope, std::move(group_tasks), self_member},
      name(std::move(group_name)),
      map(replicas, static_cast<int>(tasks.size())),
      nodes(map.all_nodes()),
      first_node(FirstNodes(map)),
      tree(nodes, replicas),
      balanced(IsBalanced(map)) {}

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
