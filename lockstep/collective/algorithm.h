// The algorithms that carry out a call. All give the same bits: they differ in who combines what,
// never in the order of association.
//
//   kGather            everybody sends to everybody what the other needs; who needs a result
//                      combines it
//   kPairwise          each member owns a slice, gets all nodes of it and combines it; slices are
//                      gathered
//   kHalvingDoubling   level by level along the tree, members exchange halves of what they hold;
//                      the result comes back on the same way
//   kTwoLevel          hosts with several members: within the hosts in shared memory, then between
//                      them
//   kShared            reductions between members of one host, in shared memory
//
// Which one is used follows from the call and the group alone, so that all members choose the same.
// One that is asked for and cannot carry out the call is left to the rules of choose.cc.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::collective {

enum class Algorithm { kAuto, kGather, kPairwise, kHalvingDoubling, kTwoLevel, kShared };

// "auto", "gather", "pairwise", "halving_doubling", "two_level", "shared".
std::string_view AlgorithmName(Algorithm algorithm);
Result<Algorithm> ParseAlgorithm(std::string_view name);

}  // namespace lockstep::collective
