// ReplicaMap: which member of a group holds which logical replicas, and where these lie in the
// reduction tree (contract C1, rule 2).
//
// The tree over R replicas: a node covers [k * 2^j, (k + 1) * 2^j), cut off at R; its value is that
// of its left half combined with that of its right half, as far as that exists. Replicas are dealt
// out in contiguous runs, the first R % W members have one more. A member combines what it holds to
// as few nodes as possible; the tree over the nodes of all members is the tree over the replicas.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::collective {

// Replicas [begin, end): one node of the tree.
struct ReplicaNode {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const ReplicaNode& a, const ReplicaNode& b) = default;
};

class ReplicaMap {
 public:
  // Both at least 1. Members without replicas only receive.
  ReplicaMap(int64_t replicas, int members);

  int64_t replicas() const { return replicas_; }

  int members() const { return members_; }

  // The replicas [begin, end) of a member.
  ReplicaNode range(int member) const;

  // The nodes that make up the range of a member, in order: as few as there can be.
  std::vector<ReplicaNode> nodes(int member) const;

  // Of all members, in order.
  std::vector<ReplicaNode> all_nodes() const;

 private:
  int64_t replicas_;
  int members_;
};

// The nodes that make up [begin, end) of a tree over `replicas`.
std::vector<ReplicaNode> NodesOf(int64_t begin, int64_t end, int64_t replicas);

}  // namespace lockstep::collective
