// HostLevel: which members of a group share a host, and what two_level makes of that. A host is a
// run of members that share memory; its nodes are those that its members hold together, and make up
// a tree over the hosts.
//
// A value is cut into as many slices as the smallest host has members: on every host the member of
// number s sees to slice s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/collective/internal/algorithms.h"
#include "lockstep/collective/internal/group_info.h"
#include "lockstep/collective/internal/reduce_tree.h"
#include "lockstep/collective/internal/shared_memory.h"

namespace lockstep::collective::internal {

class HostLevel {
  struct Private {
    explicit Private() = default;
  };

 public:
  // leaders[i] is the same for members of one host. Null where two levels are of no use: one host,
  // hosts of one member each, or hosts whose members do not follow one another.
  static std::unique_ptr<HostLevel> Create(const GroupInfo& group,
                                           std::span<const uint64_t> leaders);
  HostLevel(Private, const GroupInfo& group, std::span<const int> first_members, int host);
  HostLevel(const HostLevel&) = delete;
  HostLevel& operator=(const HostLevel&) = delete;

  // The members of this host, by local number. The scope is that of the group.
  const MemberList& local() const { return local_; }

  int hosts() const { return static_cast<int>(first_members_.size()) - 1; }

  int host() const { return host_; }

  // The first member of a host; hosts() stands for the end.
  int first_member(int host) const { return first_members_[static_cast<size_t>(host)]; }

  int HostOf(int member) const;

  int slices() const { return slices_; }

  // The nodes of host h are first_node()[h] to first_node()[h + 1] - 1.
  const std::vector<size_t>& first_node() const { return first_node_; }

  const ReduceTree& tree() const { return tree_; }

  // A node of this host, and those nodes of its members that make it up: inputs[first] to
  // inputs[first + count - 1] of all that they hold.
  struct Node {
    ReduceTree tree;
    size_t first;
    size_t count;
  };

  std::span<const Node> nodes() const { return nodes_; }

  // Of local members; the most that one of any host has.
  size_t num_nodes(int local) const { return group_.num_nodes(first_member(host_) + local); }

  size_t most_nodes() const { return most_nodes_; }

  // Set once, before calls.
  std::unique_ptr<SharedMemory> memory;
  // Of the call that is running.
  Scratch scratch;

 private:
  const GroupInfo& group_;
  const std::vector<int> first_members_;
  const int host_;
  const MemberList local_;
  std::vector<ReplicaNode> all_nodes_;  // of all hosts
  const std::vector<size_t> first_node_;
  const ReduceTree tree_;
  std::vector<Node> nodes_;
  size_t most_nodes_ = 1;
  int slices_ = 1;
};

}  // namespace lockstep::collective::internal
