#include "lockstep/collective/replica_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep::collective {
namespace {

// Every node of the tree over `replicas`, by its definition.
void AddTree(int64_t begin, int64_t size, int64_t replicas,
             std::set<std::pair<int64_t, int64_t>>& nodes) {
  if (begin >= replicas) {
    return;
  }
  nodes.emplace(begin, std::min(begin + size, replicas));
  if (size > 1) {
    AddTree(begin, size / 2, replicas, nodes);
    AddTree(begin + size / 2, size / 2, replicas, nodes);
  }
}

std::set<std::pair<int64_t, int64_t>> Tree(int64_t replicas) {
  int64_t size = 1;
  while (size < replicas) {
    size *= 2;
  }
  std::set<std::pair<int64_t, int64_t>> nodes;
  AddTree(0, size, replicas, nodes);
  return nodes;
}

// The smallest number of nodes that cover [begin, end) without overlap.
size_t Fewest(int64_t begin, int64_t end, const std::set<std::pair<int64_t, int64_t>>& tree) {
  std::vector<size_t> fewest(static_cast<size_t>(end - begin + 1), SIZE_MAX);
  fewest[0] = 0;
  for (int64_t at = begin; at < end; ++at) {
    for (const auto& [from, to] : tree) {
      if (from == at && to <= end) {
        size_t& there = fewest[static_cast<size_t>(to - begin)];
        there = std::min(there, fewest[static_cast<size_t>(at - begin)] + 1);
      }
    }
  }
  return fewest.back();
}

TEST(ReplicaMapTest, RunsAreContiguousAndBalanced) {
  for (int64_t replicas = 1; replicas <= 17; ++replicas) {
    for (int members = 1; members <= 17; ++members) {
      const ReplicaMap map(replicas, members);
      int64_t next = 0;
      for (int member = 0; member < members; ++member) {
        const ReplicaNode range = map.range(member);
        EXPECT_EQ(range.begin, next);
        const int64_t expected = replicas / members + (member < replicas % members ? 1 : 0);
        EXPECT_EQ(range.end - range.begin, expected);
        next = range.end;
      }
      EXPECT_EQ(next, replicas);
    }
  }
}

TEST(ReplicaMapTest, NodesAreOfTheTreeAndAsFewAsThereCanBe) {
  for (int64_t replicas = 1; replicas <= 17; ++replicas) {
    const auto tree = Tree(replicas);
    for (int members = 1; members <= 17; ++members) {
      const ReplicaMap map(replicas, members);
      int64_t next = 0;
      for (int member = 0; member < members; ++member) {
        const std::vector<ReplicaNode> nodes = map.nodes(member);
        for (const ReplicaNode& node : nodes) {
          EXPECT_EQ(node.begin, next);
          EXPECT_EQ(tree.count({node.begin, node.end}), 1U)
              << node.begin << " to " << node.end << " of " << replicas;
          next = node.end;
        }
        const ReplicaNode range = map.range(member);
        EXPECT_EQ(nodes.size(), Fewest(range.begin, range.end, tree));
      }
      EXPECT_EQ(next, replicas);
    }
  }
}

TEST(ReplicaMapTest, PowersOfTwoHoldOneNodeEach) {
  const ReplicaMap map(8, 4);
  const std::vector<ReplicaNode> expected = {{0, 2}, {2, 4}, {4, 6}, {6, 8}};
  EXPECT_EQ(map.all_nodes(), expected);
}

TEST(ReplicaMapTest, TheLastMemberHoldsANodeThatIsCutOff) {
  const ReplicaMap map(7, 2);
  const std::vector<ReplicaNode> expected = {{0, 4}, {4, 7}};
  EXPECT_EQ(map.all_nodes(), expected);
}

}  // namespace
}  // namespace lockstep::collective
