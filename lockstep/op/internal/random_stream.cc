#include "lockstep/op/internal/random_stream.h"

#include <array>
#include <cmath>

namespace lockstep::op {
namespace {

using Coefficients = std::array<double, 8>;

// c[0] + c[1] x + ...
double Polynomial(const Coefficients& c, double x) {
  double y = 0.0;
  for (size_t i = c.size(); i-- > 0;) {
    y = y * x + c[i];
  }
  return y;
}

}  // namespace

PhiloxStream StreamKey::At(const StepInfo& step) const {
  // Odd multiplier: distinct seeds of an op stay distinct, and 0 leaves the step's seed as it is.
  const uint64_t mixed = step.seed ^ (seed * 0x9E3779B97F4A7C15ULL);
  return per_step ? PhiloxStream(mixed, name, step.step, step.replica) : PhiloxStream(mixed, name);
}

StreamKey StreamKeyOf(const Node& node, bool per_step) {
  const std::string& stream = node.attrs.GetString("stream");
  return {static_cast<uint64_t>(node.attrs.GetInt("seed")), stream.empty() ? node.name : stream,
          per_step};
}

double NormalQuantile(double probability) {
  constexpr Coefficients kCentralTop = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                        1.9715909503065514427e3, 1.3731693765509461125e4,
                                        4.5921953931549871457e4, 6.7265770927008700853e4,
                                        3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr Coefficients kCentralBottom = {1.0,
                                           4.2313330701600911252e1,
                                           6.8718700749205790830e2,
                                           5.3941960214247511077e3,
                                           2.1213794301586595867e4,
                                           3.9307895800092710610e4,
                                           2.8729085735721942674e4,
                                           5.2264952788528545610e3};
  constexpr Coefficients kTailTop = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                     5.76949722146069140550e0,  3.64784832476320460504e0,
                                     1.27045825245236838258e0,  2.41780725177450611770e-1,
                                     2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr Coefficients kTailBottom = {1.0,
                                        2.05319162663775882187e0,
                                        1.67638483018380384940e0,
                                        6.89767334985100004550e-1,
                                        1.48103976427480074590e-1,
                                        1.51986665636164571966e-2,
                                        5.47593808499534494600e-4,
                                        1.05075007164441684324e-9};
  const double q = probability - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kCentralTop, r) / Polynomial(kCentralBottom, r);
  }
  const double tail = q < 0.0 ? probability : 1.0 - probability;
  const double r = std::sqrt(-std::log(tail)) - 1.6;
  const double magnitude = Polynomial(kTailTop, r) / Polynomial(kTailBottom, r);
  return q < 0.0 ? -magnitude : magnitude;
}

float TruncatedNormalValue(uint32_t word) {
  // The distribution function at -2, and the probability within [-2, 2].
  constexpr double kBelow = 0.022750131948179207;
  constexpr double kWithin = 0.95449973610364159;
  const double u = (static_cast<double>(word) + 0.5) * 0x1.0p-32;
  return static_cast<float>(NormalQuantile(kBelow + kWithin * u));
}

}  // namespace lockstep::op
