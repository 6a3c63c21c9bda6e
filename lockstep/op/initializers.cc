#include "lockstep/op/initializers.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/op/fill.h"
#include "lockstep/op/random.h"
#include "lockstep/op/variable.h"

namespace lockstep::op {
namespace {

struct Fans {
  double in = 1.0;
  double out = 1.0;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() == 0) {
    return {};
  }
  if (shape.rank() == 1) {
    return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  }
  double receptive_field = 1.0;
  for (int i = 0; i < shape.rank() - 2; ++i) {
    receptive_field *= static_cast<double>(shape[i]);
  }
  return {receptive_field * static_cast<double>(shape.dim(-2)),
          receptive_field * static_cast<double>(shape.dim(-1))};
}

// An empty tensor has no values, whatever their variance.
double GlorotVariance(const Shape& shape) {
  const Fans fans = FansOf(shape);
  return 2.0 / std::max(fans.in + fans.out, 1.0);
}

double HeVariance(const Shape& shape) {
  return 2.0 / std::max(FansOf(shape).in, 1.0);
}

using VarianceFn = double (*)(const Shape&);

RandomOptions Keyed(int64_t seed, std::string_view variable) {
  return {.seed = seed, .stream = std::string(variable), .per_step = false};
}

Initializer UniformOfVariance(VarianceFn variance, int64_t seed) {
  return [=](BuildContext ctx, const Shape& shape, std::string_view variable) {
    const double limit = std::sqrt(3.0 * variance(shape));
    return RandomUniform(ctx, shape, -limit, limit, Keyed(seed, variable));
  };
}

Initializer NormalOfVariance(VarianceFn variance, int64_t seed, bool truncated) {
  // The standard deviation of a standard normal value that is truncated at -2 and 2.
  constexpr double kTruncatedDeviation = 0.87962566103423978;
  return [=](BuildContext ctx, const Shape& shape, std::string_view variable) {
    const double deviation = std::sqrt(variance(shape));
    return truncated ? TruncatedNormal(ctx, shape, 0.0, deviation / kTruncatedDeviation,
                                       Keyed(seed, variable))
                     : RandomNormal(ctx, shape, 0.0, deviation, Keyed(seed, variable));
  };
}

}  // namespace

Initializer Zeros() {
  return Constant(0.0);
}

Initializer Ones() {
  return Constant(1.0);
}

Initializer Constant(double value) {
  return [=](BuildContext ctx, const Shape& shape, std::string_view) {
    return Fill(ctx, shape, value);
  };
}

Initializer UniformInit(double low, double high, int64_t seed) {
  return [=](BuildContext ctx, const Shape& shape, std::string_view variable) {
    return RandomUniform(ctx, shape, low, high, Keyed(seed, variable));
  };
}

Initializer NormalInit(double mean, double stddev, int64_t seed) {
  return [=](BuildContext ctx, const Shape& shape, std::string_view variable) {
    return RandomNormal(ctx, shape, mean, stddev, Keyed(seed, variable));
  };
}

Initializer TruncatedNormalInit(double mean, double stddev, int64_t seed) {
  return [=](BuildContext ctx, const Shape& shape, std::string_view variable) {
    return TruncatedNormal(ctx, shape, mean, stddev, Keyed(seed, variable));
  };
}

Initializer GlorotUniform(int64_t seed) {
  return UniformOfVariance(GlorotVariance, seed);
}

Initializer HeUniform(int64_t seed) {
  return UniformOfVariance(HeVariance, seed);
}

Initializer GlorotNormal(int64_t seed, bool truncated) {
  return NormalOfVariance(GlorotVariance, seed, truncated);
}

Initializer HeNormal(int64_t seed, bool truncated) {
  return NormalOfVariance(HeVariance, seed, truncated);
}

Value InitializedVariable(BuildContext ctx, std::string_view name, const Shape& shape,
                          const Initializer& initializer, bool trainable) {
  const std::string full_name = ctx.graph().UniqueName(ctx.builder().Scoped(name));
  const Value initial = initializer(ctx, shape, full_name);
  return initial.valid() ? Variable(ctx, name, initial, trainable) : Value{};
}

}  // namespace lockstep::op
