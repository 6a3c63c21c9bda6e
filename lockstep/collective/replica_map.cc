#include "lockstep/collective/replica_map.h"

#include <algorithm>

#include "lockstep/base/macros.h"

namespace lockstep::collective {

std::vector<ReplicaNode> NodesOf(int64_t begin, int64_t end, int64_t replicas) {
  std::vector<ReplicaNode> nodes;
  while (begin < end) {
    int64_t size = 1;
    // A node that the end of the tree cuts off may be larger than what is left.
    while (begin % (2 * size) == 0 &&
           (begin + 2 * size <= end || (end == replicas && begin + size < replicas))) {
      size *= 2;
    }
    nodes.push_back({begin, std::min(begin + size, replicas)});
    begin = nodes.back().end;
  }
  return nodes;
}

ReplicaMap::ReplicaMap(int64_t replicas, int members) : replicas_(replicas), members_(members) {
  LS_CHECK(replicas >= 1 && members >= 1);
}

ReplicaNode ReplicaMap::range(int member) const {
  LS_CHECK(member >= 0 && member < members_);
  const int64_t each = replicas_ / members_;
  const int64_t more = replicas_ % members_;
  const int64_t begin = member * each + std::min<int64_t>(member, more);
  return {begin, begin + each + (member < more ? 1 : 0)};
}

std::vector<ReplicaNode> ReplicaMap::nodes(int member) const {
  const ReplicaNode mine = range(member);
  return NodesOf(mine.begin, mine.end, replicas_);
}

std::vector<ReplicaNode> ReplicaMap::all_nodes() const {
  std::vector<ReplicaNode> all;
  for (int member = 0; member < members_; ++member) {
    const std::vector<ReplicaNode> mine = nodes(member);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

}  // namespace lockstep::collective
