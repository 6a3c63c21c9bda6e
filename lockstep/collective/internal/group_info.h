// MemberList: tasks that do something together. GroupInfo: what every part of a group knows of it.
// Fixed once the group has been made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/collective/internal/reduce_tree.h"
#include "lockstep/collective/replica_map.h"
#include "lockstep/net/transport.h"

namespace lockstep::collective::internal {

struct MemberList {
  int members() const { return static_cast<int>(tasks.size()); }

  net::PeerId task(int member) const { return tasks[static_cast<size_t>(member)]; }

  const std::string& task_name(int member) const { return transport.task_name(task(member)); }

  net::Transport& transport;
  const uint64_t scope;  // of their messages
  const std::vector<net::PeerId> tasks;
  const int self;  // the member that this task is
};

struct GroupInfo : MemberList {
  GroupInfo(net::Transport& group_transport, std::string group_name, uint64_t group_scope,
            std::vector<net::PeerId> group_tasks, int self_member, int64_t replicas);

  // The nodes of `member` are nodes[first_node[member]] to nodes[first_node[member + 1] - 1].
  size_t num_nodes(int member) const {
    return first_node[static_cast<size_t>(member) + 1] - first_node[static_cast<size_t>(member)];
  }

  const std::string name;
  const ReplicaMap map;
  const std::vector<ReplicaNode> nodes;  // of all members
  const std::vector<size_t> first_node;
  const ReduceTree tree;  // over all nodes
  // Every 2^j members from a multiple of it on hold one node together, up to all members.
  const bool balanced;
};

// What the tree combines for each element: of the nodes of all members, those of this one are its
// inputs, the others as `received` has them, in order.
std::vector<const void*> AllNodes(const GroupInfo& group, std::span<const void* const> mine,
                                  std::span<const void* const> received);

}  // namespace lockstep::collective::internal
