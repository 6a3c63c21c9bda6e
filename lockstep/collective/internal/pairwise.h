// A reduction by `pairwise` among some members of a group, the participants, with nodes and a tree
// of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {

struct PairwisePlan {
  // Members of the group, in the order of their nodes, among them this one: participants[self].
  std::vector<int> participants;
  size_t self = 0;
  // As in GroupInfo, by participant.
  std::vector<size_t> first_node;
  const ReduceTree* tree = nullptr;  // over the nodes of all
  // The participant that needs the result; all if negative.
  int root = -1;
  int64_t elements = 0;
  std::vector<const void*> inputs;  // this participant's nodes
  void* output = nullptr;           // for who needs the result
  // Of the messages: this one and the next.
  uint64_t first_stage = 1;
};

// After the meeting. Returns when nobody reads the inputs any more.
Status ReducePairwise(CallRun& run, const PairwisePlan& plan);

}  // namespace lockstep::collective::internal
