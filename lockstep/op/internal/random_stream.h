// Streams of random words for kernels, and the values made of them.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/philox.h"
#include "lockstep/graph/kernel.h"

namespace lockstep::op {

// The attributes that name a stream: seed, stream, per_step.
struct StreamKey {
  uint64_t seed = 0;
  std::string name;
  bool per_step = true;

  PhiloxStream At(const StepInfo& step) const;
};

StreamKey StreamKeyOf(const Node& node, bool per_step);

// The normal value whose distribution function is `probability`, in (0, 1). Relative error about
// 1e-16: algorithm AS 241 (PPND16), Wichura, Applied Statistics 37 (1988), for probabilities above
// 1e-10 and below 1 - 1e-10.
double NormalQuantile(double probability);

// A standard normal value within [-2, 2] from one word.
float TruncatedNormalValue(uint32_t word);

}  // namespace lockstep::op
