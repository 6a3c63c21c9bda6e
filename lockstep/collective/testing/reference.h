// Values of logical replicas and what reductions of them must give, computed by the definition of
// the tree, one element at a time, independently of the layer's own code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/collective/call.h"

namespace lockstep::collective::testing {

using Bytes = std::vector<std::byte>;

// Under a sanitizer everything takes ten times as long.
#if defined(LS_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// One reduction with its expected result.
struct ReductionCase {
  CallSpec spec;
  int64_t replicas = 1;
  // Of nodes[i] of ReplicaMap(replicas, members).all_nodes().
  std::vector<Bytes> nodes;
  Bytes expected;  // the whole value
};

// Replica r's element e is a function of (r, e, type, op): sums depend on every change of the order
// of association; extrema have NaN, infinities and zeros of both signs among them.
ReductionCase MakeReductionCase(const CallSpec& spec, int64_t replicas, int members);

// Bytes that depend on where they are and on `seed`.
Bytes Pattern(size_t bytes, uint64_t seed);

}  // namespace lockstep::collective::testing
