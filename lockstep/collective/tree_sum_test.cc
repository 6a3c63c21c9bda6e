#include "lockstep/collective/tree_sum.h"

#include <gtest/gtest.h>

#include <functional>

namespace lockstep::collective {
namespace {

// Values whose sum shows every difference in association.
float Leaf(int64_t i) {
  return 1.0F / static_cast<float>(3 + 7 * i) * (i % 2 == 0 ? 1.0F : 1000.0F);
}

TreeNode LeafNode(int64_t i) {
  return {i, 1, {Tensor::From<float>(Shape{2}, {Leaf(i), -Leaf(i)}).value()}};
}

// The tree by its definition: the node over [begin, begin + size) is the sum of its halves, as far
// as they exist.
float Define(int64_t begin, int64_t size, int64_t leaves) {
  if (size == 1) {
    return Leaf(begin);
  }
  const float left = Define(begin, size / 2, leaves);
  return begin + size / 2 < leaves ? left + Define(begin + size / 2, size / 2, leaves) : left;
}

float Expected(int64_t leaves) {
  int64_t size = 1;
  while (size < leaves) {
    size *= 2;
  }
  return Define(0, size, leaves);
}

TEST(TreeSumTest, FollowsTheTreeForEveryNumberOfLeaves) {
  for (int64_t leaves = 1; leaves <= 37; ++leaves) {
    TreeSum sum;
    for (int64_t i = 0; i < leaves; ++i) {
      sum.Add(LeafNode(i));
    }
    const std::vector<Tensor> total = sum.Finish();
    EXPECT_EQ(total[0].values<float>()[0], Expected(leaves)) << leaves;
    EXPECT_EQ(total[0].values<float>()[1], -Expected(leaves)) << leaves;
  }
}

TEST(TreeSumTest, TheSameBitsHoweverLeavesAreDealtOut) {
  for (int64_t leaves = 1; leaves <= 17; ++leaves) {
    for (int64_t holders = 1; holders <= leaves; ++holders) {
      TreeSum total;
      for (int64_t holder = 0; holder < holders; ++holder) {
        TreeSum part;
        for (int64_t i = leaves * holder / holders; i < leaves * (holder + 1) / holders; ++i) {
          part.Add(LeafNode(i));
        }
        for (TreeNode& node : part.nodes()) {
          total.Add(std::move(node));
        }
      }
      EXPECT_EQ(total.Finish()[0].values<float>()[0], Expected(leaves)) << leaves << " " << holders;
    }
  }
}

TEST(TreeSumTest, HoldsFewPartialSumsAndGivesBuffersBack) {
  TreeSum sum;
  for (int64_t i = 0; i < 1000; ++i) {
    sum.Add(LeafNode(i));
    EXPECT_LE(sum.nodes().size(), 10U);
  }
  int spare = 0;
  while (!sum.TakeSpare().empty()) {
    ++spare;
  }
  // 1000 has six bits set: six nodes are left, all other leaves were added into them.
  EXPECT_EQ(sum.nodes().size(), 6U);
  EXPECT_EQ(spare, 994);
}

}  // namespace
}  // namespace lockstep::collective
