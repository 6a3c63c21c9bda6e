// Initial values of variables. Random ones are a function of the run's seed, `seed` and the
// variable's name only, so that they do not depend on what else a program contains.
//
//   Value w = InitializedVariable(ctx, "weights", {784, 10}, GlorotUniform());
//
// Fans are computed as TensorFlow does: a matrix [in, out]; a convolution's filter
// [kh, kw, in, out], both times kh * kw; a vector is both.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Makes a float32 value of the shape for the variable with this full name.
using Initializer =
    std::function<Value(BuildContext ctx, const Shape& shape, std::string_view variable)>;

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
Initializer UniformInit(double low, double high, int64_t seed = 0);
Initializer NormalInit(double mean, double stddev, int64_t seed = 0);
Initializer TruncatedNormalInit(double mean, double stddev, int64_t seed = 0);

// Glorot, Bengio (2010): variance 2 / (fan_in + fan_out). Uniform in +-sqrt(3 variance).
Initializer GlorotUniform(int64_t seed = 0);
// He et al. (2015): variance 2 / fan_in.
Initializer HeUniform(int64_t seed = 0);

// Normal with the same variances; truncated at two standard deviations (as in Keras, with the
// deviation raised so that the variance is right after truncation) unless `truncated` is false.
Initializer GlorotNormal(int64_t seed = 0, bool truncated = true);
Initializer HeNormal(int64_t seed = 0, bool truncated = true);

// A variable in the current scope whose initial value is keyed by its final name.
Value InitializedVariable(BuildContext ctx, std::string_view name, const Shape& shape,
                          const Initializer& initializer, bool trainable = true);

}  // namespace lockstep::op
