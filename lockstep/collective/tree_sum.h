// Sums in the order of one balanced binary tree over the leaves 0..n-1, aligned at powers of two,
// whoever adds what (contract C1, rule 2): the leaves [k * 2^j, (k + 1) * 2^j) form one node, cut
// off at n.
//
// Leaves arrive in order. Equal-sized neighbours that form an aligned node are added at once, so
// that no more than log2(n) + 1 partial sums exist. Partial sums of several holders are joined by
// adding them in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/collective/codec.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::collective {

// The tensors of one leaf or node: float32, of the same shapes in all.
struct TreeNode {
  int64_t begin = 0;
  int64_t size = 1;  // a power of two
  std::vector<Tensor> tensors;
};

class TreeSum {
 public:
  // `codec` rounds the sum at every node (RoundNode); leaves have gone through it (LeafCodec).
  explicit TreeSum(Codec codec = Codec::kNone) : codec_(codec) {}

  // Nodes must come in order, each beginning where the last ended. Adds into the tensors of the
  // earlier node.
  void Add(TreeNode node);

  // The nodes so far, in order.
  std::span<TreeNode> nodes() { return nodes_; }

  // Joins those nodes that begin at `begin` or later, from the right, as the tree does beyond n:
  // when the last leaf has come. They become the one node of ReplicaMap that begins there.
  void JoinFrom(int64_t begin);

  // Joins all, and returns the sum; it is empty afterwards.
  std::vector<Tensor> Finish();

  // The tensors of the nodes, in order; no node is left.
  std::vector<std::vector<Tensor>> TakeNodes();

  // Tensors that were added into others or given back, for use as the next leaf; empty if there are
  // none.
  std::vector<Tensor> TakeSpare();
  void GiveBack(std::vector<Tensor> tensors);

  // Forgets the nodes, as after an error.
  void Clear() { nodes_.clear(); }

 private:
  void MergeLast();

  Codec codec_;
  std::vector<TreeNode> nodes_;
  std::vector<std::vector<Tensor>> spare_;
};

}  // namespace lockstep::collective
