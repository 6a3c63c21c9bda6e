#include "lockstep/op/internal/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace lockstep::op {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The distance of `got` from `exact` in units of the last place of the float nearest to `exact`.
double UlpError(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(nearest)) {
    const bool same = std::isnan(exact) ? std::isnan(got) : got == nearest;
    return same ? 0.0 : 1e9;
  }
  const int exponent = std::max(std::ilogb(nearest == 0.0F ? 1e-45F : nearest), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

// The largest error over floats of all magnitudes in [low, high].
template <class Got, class Exact>
double WorstError(float low, float high, Got got, Exact exact) {
  double worst = 0.0;
  constexpr uint32_t kStep = 9973;
  for (uint32_t bits = 0; bits < 0xFFFFFFFFU - kStep; bits += kStep) {
    const auto x = std::bit_cast<float>(bits);
    if (x >= low && x <= high) {
      const double error = UlpError(got(x), exact(static_cast<double>(x)));
      worst = std::max(worst, error);
    }
  }
  return worst;
}

double ExactSigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

TEST(VectorMathTest, ExpIsAccurateEverywhere) {
  EXPECT_LT(WorstError(-kInfinity, kInfinity, vec::Exp, [](double x) { return std::exp(x); }), 1.5);
}

TEST(VectorMathTest, ExpM1IsAccurateBelowZero) {
  EXPECT_LT(
      WorstError(-kInfinity, 0.0F, vec::ExpM1Negative, [](double x) { return std::expm1(x); }),
      2.0);
}

TEST(VectorMathTest, LogIsAccurateEverywhere) {
  EXPECT_LT(WorstError(-kInfinity, kInfinity, vec::Log, [](double x) { return std::log(x); }), 2.0);
}

TEST(VectorMathTest, TanhIsAccurateEverywhere) {
  EXPECT_LT(WorstError(-kInfinity, kInfinity, vec::Tanh, [](double x) { return std::tanh(x); }),
            3.0);
}

TEST(VectorMathTest, SigmoidIsAccurateEverywhere) {
  EXPECT_LT(WorstError(-kInfinity, kInfinity, vec::Sigmoid, ExactSigmoid), 2.5);
}

TEST(VectorMathTest, SoftplusIsAccurateEverywhere) {
  const auto exact = [](double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  };
  EXPECT_LT(WorstError(-kInfinity, kInfinity, vec::Softplus, exact), 3.0);
}

TEST(VectorMathTest, NormalIsAccurateIntoTheTail) {
  EXPECT_LT(WorstError(
                -12.0F, kInfinity, [](float x) { return vec::NormalAt(x).cumulative; },
                [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }),
            8.0);
  EXPECT_LT(WorstError(
                -12.0F, 12.0F, [](float x) { return vec::NormalAt(x).density; },
                [](double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI); }),
            4.0);
}

TEST(VectorMathTest, SpecialValues) {
  EXPECT_EQ(vec::Exp(0.0F), 1.0F);
  EXPECT_EQ(vec::Exp(kInfinity), kInfinity);
  EXPECT_EQ(vec::Exp(-kInfinity), 0.0F);
  EXPECT_EQ(vec::Log(1.0F), 0.0F);
  EXPECT_EQ(vec::Log(0.0F), -kInfinity);
  EXPECT_EQ(vec::Log(-0.0F), -kInfinity);
  EXPECT_EQ(vec::Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(vec::Log(-1.0F)));
  EXPECT_TRUE(std::signbit(vec::Tanh(-0.0F)));
  EXPECT_EQ(vec::Tanh(-kInfinity), -1.0F);
  EXPECT_EQ(vec::Sigmoid(-kInfinity), 0.0F);
  EXPECT_EQ(vec::Sigmoid(kInfinity), 1.0F);
  EXPECT_EQ(vec::Softplus(kInfinity), kInfinity);
  EXPECT_EQ(vec::NormalAt(-kInfinity).cumulative, 0.0F);
  EXPECT_EQ(vec::NormalAt(kInfinity).cumulative, 1.0F);
  for (const auto f :
       {vec::Exp, vec::ExpM1Negative, vec::Log, vec::Tanh, vec::Sigmoid, vec::Softplus}) {
    EXPECT_TRUE(std::isnan(f(kNan)));
  }
  EXPECT_TRUE(std::isnan(vec::NormalAt(kNan).cumulative));
}

}  // namespace
}  // namespace lockstep::op
