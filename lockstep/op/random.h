// Random tensors. Every element is a pure function of (the step's seed, `seed`, the stream's name,
// step, replica, position): not of threads, time or how often the op ran before.
//
// The stream is `stream`, or the node's name if empty. Element i comes from word i of the stream
// (normal values: elements 2k and 2k + 1 from words 2k and 2k + 1). float32, bfloat16 or float64;
// values have float32 precision. No gradients.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct RandomOptions {
  DType dtype = DType::kFloat32;
  int64_t seed = 0;
  std::string stream = {};
  // False: the same values in every step and on every replica, as for initial values.
  bool per_step = true;
};

// Uniform in [low, high); `low` if both are equal. The shape must be fully known.
Value RandomUniform(BuildContext ctx, const Shape& shape, double low = 0.0, double high = 1.0,
                    const RandomOptions& options = {});

Value RandomNormal(BuildContext ctx, const Shape& shape, double mean = 0.0, double stddev = 1.0,
                   const RandomOptions& options = {});

// A normal distribution of `mean` and `stddev` restricted to within two of these standard
// deviations from the mean (the distribution of tf.random.truncated_normal).
Value TruncatedNormal(BuildContext ctx, const Shape& shape, double mean = 0.0, double stddev = 1.0,
                      const RandomOptions& options = {});

}  // namespace lockstep::op
