// ReduceTree: combines the values of adjacent nodes of the reduction tree to that of the node above
// all of them, in the order of the tree. Works in strips that stay in the first-level cache.
// Thread-safe as a const value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/collective/codec.h"
#include "lockstep/collective/reduce_op.h"
#include "lockstep/collective/replica_map.h"

namespace lockstep::collective::internal {

// What a node is made of.
struct NodeArithmetic {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  Codec codec = Codec::kNone;
};

// out[i] = a[i] op b[i], rounded by the codec. `out` may be `a` or `b`.
void CombineNodes(const NodeArithmetic& arithmetic, const void* a, const void* b, void* out,
                  int64_t count);

class ReduceTree {
 public:
  // `nodes` are in order, without gaps, and together make up one node of the tree over `replicas`.
  ReduceTree(std::span<const ReplicaNode> nodes, int64_t replicas);

  // inputs[i]: `count` elements of nodes[i]. Every output gets the result; it may be an input, and
  // overlaps nothing otherwise. kMean: the sum.
  void Reduce(const NodeArithmetic& arithmetic, std::span<const void* const> inputs,
              std::span<void* const> outputs, int64_t count) const {
    Run(arithmetic, inputs, outputs, count, 1);
  }

  // As Reduce for the whole tree: divides means by `replicas`.
  void ReduceAll(const NodeArithmetic& arithmetic, std::span<const void* const> inputs,
                 std::span<void* const> outputs, int64_t count) const {
    Run(arithmetic, inputs, outputs, count, arithmetic.op == ReduceOp::kMean ? replicas_ : 1);
  }

 private:
  static constexpr int kCombine = -1;

  void Add(std::span<const ReplicaNode> nodes, int64_t begin, int64_t size, size_t* next);
  void Run(const NodeArithmetic& arithmetic, std::span<const void* const> inputs,
           std::span<void* const> outputs, int64_t count, int64_t divisor) const;

  int64_t replicas_;
  size_t num_inputs_;
  // Postfix: the number of an input, or kCombine for the two values before.
  std::vector<int> program_;
};

}  // namespace lockstep::collective::internal
