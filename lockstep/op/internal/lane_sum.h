// Sums of a function over an index range: eight partial sums in float32 for spans, which compilers
// turn into vectors, and float64 beyond.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::op::internal {

template <class Term>
double LaneSum(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 8;
  constexpr int64_t kSpan = 1024;
  double total = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSpan) {
    const int64_t end = std::min(count, begin + kSpan);
    const int64_t whole = begin + (end - begin) / kLanes * kLanes;
    float sums[kLanes] = {};
    for (int64_t i = begin; i < whole; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        sums[l] += term(i + l);
      }
    }
    for (int64_t i = whole; i < end; ++i) {
      sums[i - whole] += term(i);
    }
    for (const float sum : sums) {
      total += static_cast<double>(sum);
    }
  }
  return total;
}

}  // namespace lockstep::op::internal
