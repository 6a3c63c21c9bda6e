// ParallelFor: splits an index range over the threads that a kernel may use.
//
//   ParallelFor(request.threads, n, kElementGrain, [&](int64_t begin, int64_t end) { ... });
//
// Runs inline with one thread or when n is at most `grain`; otherwise every begin is a multiple
// of `grain`, and each thread gets one contiguous part. The body must write to disjoint places and
// must not throw. Results must not depend on how the range is cut.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::op {

// Elements of a cheap element-wise loop below which a second thread does not pay.
inline constexpr int64_t kElementGrain = 16384;

template <class Body>
void ParallelFor(int threads, int64_t n, int64_t grain, const Body& body) {
  const int64_t units = (n + grain - 1) / grain;
  const int64_t parts = std::min<int64_t>(threads, units);
  if (parts <= 1) {
    if (n > 0) {
      body(int64_t{0}, n);
    }
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = units * part / parts * grain;
    const int64_t end = std::min(n, units * (part + 1) / parts * grain);
    body(begin, end);
  }
}

}  // namespace lockstep::op
