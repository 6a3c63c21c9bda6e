// FusedElementwise: a chain of element-wise float32 ops in one pass over memory, made by the fusion
// pass. Intermediate results live in strips that stay in the first-level cache.
//
//   if (IsFusible(*mul) && IsFusible(*relu)) {
//     const Node* nodes[] = {mul, relu};          // in order; only the last is used elsewhere
//     LS_ASSIGN_OR_RETURN(const ElementwiseChain chain, MakeElementwiseChain(nodes));
//     ... graph.AddNode("FusedElementwise", chain.inputs, {{"program", chain.program}}) ...
//   }
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep::op {

// True if the node may be part of a chain: an element-wise op on float32 whose inputs surely have
// the shape of its output, or one element.
bool IsFusible(const Node& node);

struct ElementwiseChain {
  // The attribute `program`.
  std::string program;
  // What comes from outside, each value once, in order of its first use. At most 32.
  std::vector<Value> inputs;
};

// The chain of `nodes`, all fusible and each after those it reads; the last one's output is the
// chain's. An error if the nodes do not form a chain of one shape or are too many (64 steps).
Result<ElementwiseChain> MakeElementwiseChain(std::span<const Node* const> nodes);

}  // namespace lockstep::op
