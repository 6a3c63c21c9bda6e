#include "lockstep/graph/internal/topological_sort.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Predecessors = std::vector<std::vector<int>>;

std::string Describe(const TopologicalSort& sort) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  return DescribeCycle(sort.cycle,
                       [&](int i) { return kLetters.substr(static_cast<size_t>(i) % 26, 1); });
}

TEST(TopologicalSortTest, KeepsTheOrderWhereItCan) {
  EXPECT_THAT(SortTopologically(Predecessors{}).order, IsEmpty());
  EXPECT_THAT(SortTopologically(Predecessors{{}, {0}, {}, {1, 2}}).order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(SortTopologically(Predecessors{{3}, {}, {}, {2, 2}}).order, ElementsAre(1, 2, 3, 0));
}

TEST(TopologicalSortTest, ACycleRunsFromPredecessorToSuccessor) {
  EXPECT_THAT(SortTopologically(Predecessors{{1}, {}}).cycle, IsEmpty());
  EXPECT_EQ(Describe(SortTopologically(Predecessors{{}, {1}})), "b -> b");
  // 1 before 2 before 3 before 1; 0 waits for the cycle, 4 is free.
  const TopologicalSort sort = SortTopologically(Predecessors{{1}, {4, 3}, {1}, {2}, {}});
  EXPECT_THAT(sort.order, ElementsAre(4));
  EXPECT_EQ(Describe(sort), "b -> c -> d -> b");
}

TEST(TopologicalSortTest, ALongCycleIsFoundQuicklyAndCutInTheText) {
  constexpr int kNodes = 200000;
  Predecessors ring(kNodes);
  for (int i = 0; i < kNodes; ++i) {
    ring[static_cast<size_t>(i)] = {(i + kNodes - 1) % kNodes};
  }
  const TopologicalSort sort = SortTopologically(ring);
  EXPECT_THAT(sort.cycle, SizeIs(kNodes));
  EXPECT_EQ(Describe(sort),
            "a -> b -> c -> d -> e -> f -> g -> h -> i -> j -> k -> l -> m -> n -> o -> p -> ... "
            "(200000 nodes)");
}

}  // namespace
}  // namespace lockstep::internal
