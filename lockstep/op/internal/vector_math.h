// float32 functions without branches or calls, which the compiler vectorises inside loops. Each is
// right to about 2 units in the last place over all floats unless its comment says otherwise, and
// at 0, infinities, NaN and denormals.
//
// The polynomials are near-minimax fits made for these ranges (errors below 1e-8 relative). Fused
// multiply-adds are explicit, so that vector and scalar code give the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::op::vec {

namespace internal {

// c + rest[0] x + rest[1] x^2 + ... by Horner's rule. No loop: that would keep the caller's loop
// from being vectorised.
inline float Polynomial(float, float c) {
  return c;
}

template <class... Rest>
inline float Polynomial(float x, float c, Rest... rest) {
  return std::fma(Polynomial(x, rest...), x, c);
}

// 2^n for n in [-126, 127].
inline float PowerOfTwo(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

inline constexpr float kLog2High = 0.693359375F;
inline constexpr float kLog2Low = -2.12194440e-4F;

// x = n log(2) + r with |r| <= log(2) / 2, for |x| < 1e5.
struct ExpReduction {
  int32_t n;
  float r;
};

inline ExpReduction ReduceForExp(float x) {
  // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
  constexpr float kMagic = 12582912.0F;
  const float shifted = std::fma(x, 1.44269504F, kMagic);
  const float n = shifted - kMagic;
  const float r = std::fma(n, -kLog2Low, std::fma(n, -kLog2High, x));
  const uint32_t bits = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kMagic);
  return {static_cast<int32_t>(bits), r};
}

// exp(r) - 1 for |r| <= log(2) / 2.
inline float ExpM1Reduced(float r) {
  return std::fma(r * r,
                  Polynomial(r, 0.5F, 0.166666672F, 0.0416662693F, 0.00833326578F, 0.00139460771F,
                             0.000199178205F),
                  r);
}

}  // namespace internal

inline float Exp(float x) {
  // Beyond these the result is infinite or 0. NaN passes both.
  float clamped = x > 90.0F ? 90.0F : x;
  clamped = clamped < -105.0F ? -105.0F : clamped;
  const auto [n, r] = internal::ReduceForExp(clamped);
  const float y = 1.0F + internal::ExpM1Reduced(r);
  // In two steps, because 2^n itself may be out of range.
  const int32_t half = n >> 1;
  return y * internal::PowerOfTwo(half) * internal::PowerOfTwo(n - half);
}

// exp(x) - 1 for x <= 0, relative to the result.
inline float ExpM1Negative(float x) {
  const float clamped = x < -30.0F ? -30.0F : x;
  const auto [n, r] = internal::ReduceForExp(clamped);
  const float scale = internal::PowerOfTwo(n);
  return std::fma(scale, internal::ExpM1Reduced(r), scale - 1.0F);
}

namespace internal {

// log(1 + f) + n log(2) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
inline float LogReduced(float f, float n) {
  const float p = Polynomial(f, 0.333333105F, -0.249999866F, 0.200022265F, -0.166692495F,
                             0.142186552F, -0.123843722F, 0.118730202F, -0.117896847F, 0.06915126F);
  float y = std::fma(n, kLog2Low, p * (f * f * f));
  y = std::fma(f * f, -0.5F, y);
  return std::fma(n, kLog2High, f + y);
}

}  // namespace internal

inline float Log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool denormal = x < std::numeric_limits<float>::min();
  const float scaled = denormal ? x * 8388608.0F : x;
  // scaled = m 2^n with m in [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<uint32_t>(scaled);
  constexpr uint32_t kSqrtHalf = 0x3F3504F3U;
  const uint32_t shifted = bits - kSqrtHalf;
  const auto exponent = static_cast<int32_t>(shifted) >> 23;
  const float f = std::bit_cast<float>((shifted & 0x007FFFFFU) + kSqrtHalf) - 1.0F;
  const float n = static_cast<float>(denormal ? exponent - 23 : exponent);
  float y = internal::LogReduced(f, n);
  y = x == kInfinity ? kInfinity : y;
  y = x == 0.0F ? -kInfinity : y;
  return x < 0.0F || x != x ? std::numeric_limits<float>::quiet_NaN() : y;
}

// log(1 + x) for x in [0, 1].
inline float Log1PUnit(float x) {
  const bool upper = x > 0.414213562F;
  const float f = upper ? 0.5F * (x - 1.0F) : x;
  return internal::LogReduced(f, upper ? 1.0F : 0.0F);
}

// tanh(x) = -t / (t + 2) with t = exp(-2 |x|) - 1, with x's sign.
inline float Tanh(float x) {
  const float t = ExpM1Negative(-2.0F * std::fabs(x));
  return std::copysign(-t / (t + 2.0F), x);
}

inline float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

// log(1 + exp(x)).
inline float Softplus(float x) {
  const float positive = x > 0.0F ? x : 0.0F;
  return positive + Log1PUnit(Exp(-std::fabs(x)));
}

// The standard normal density and distribution function, the latter relative to its value where it
// is a normal number: erfc by exp(-a^2) times a polynomial in 1 / (1 + 0.4 a). To about 8 units in
// the last place.
struct Normal {
  float density;
  float cumulative;
};

inline Normal NormalAt(float x) {
  const float magnitude = std::fabs(x);
  const float bounded = magnitude > 15.0F ? 15.0F : magnitude;
  // x^2 / 2 as a rounded square and its error, because exp multiplies errors of a large argument.
  const float square = bounded * bounded;
  const float error = std::fma(bounded, bounded, -square);
  const float power = Exp(-0.5F * square);
  const float e = std::fma(power, -0.5F * error, power);
  const float t = 1.0F / std::fma(bounded, 0.282842712F, 1.0F);
  const float tail =
      0.5F * e *
      (t * internal::Polynomial(t, 0.225703672F, 0.225015253F, 0.214390904F, 0.132155642F,
                                0.264876246F, -0.270927817F, 0.531232417F, -0.486632884F,
                                0.192823723F, -0.0286371615F));
  return {0.39894228F * e, x < 0.0F ? tail : 1.0F - tail};
}

}  // namespace lockstep::op::vec
