// The optimizers' element-wise update rules, shared by the dense and the sparse ops and, in double,
// by their references. A rule is made from an op's attributes; At(lr, step) fixes what changes from
// step to step and returns a function object that updates one element: (variable, slots..., g).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/graph/attr.h"

namespace lockstep::op {

// m / denominator, 0 for 0 / 0: elements that never had a gradient, and the padding of blocked
// layouts, stay as they are.
template <class T>
T SafeDivide(T m, T denominator) {
  return m / std::max(denominator, std::numeric_limits<T>::min());
}

struct GradientDescentRule {
  static constexpr int kSlots = 0;
  static constexpr bool kUsesStep = false;

  explicit GradientDescentRule(const AttrMap&) {}

  template <class T>
  auto At(double lr, double) const {
    return [rate = static_cast<T>(lr)](T& var, T g) { var -= rate * g; };
  }
};

struct MomentumRule {
  static constexpr int kSlots = 1;
  static constexpr bool kUsesStep = false;

  explicit MomentumRule(const AttrMap& attrs)
      : momentum(attrs.GetFloat("momentum")), nesterov(attrs.GetBool("nesterov")) {}

  template <class T>
  auto At(double lr, double) const {
    const T rate = static_cast<T>(lr);
    const T decay = static_cast<T>(momentum);
    // var -= lr * accum, or lr * (g + momentum * accum).
    const T look_ahead = nesterov ? decay : T{1};
    const T direct = nesterov ? T{1} : T{0};
    return [=](T& var, T& accum, T g) {
      accum = decay * accum + g;
      var -= rate * (direct * g + look_ahead * accum);
    };
  }

  double momentum;
  bool nesterov;
};

struct AdamRule {
  static constexpr int kSlots = 2;
  static constexpr bool kUsesStep = true;

  explicit AdamRule(const AttrMap& attrs)
      : beta1(attrs.GetFloat("beta1")),
        beta2(attrs.GetFloat("beta2")),
        epsilon(attrs.GetFloat("epsilon")),
        weight_decay(attrs.GetFloat("weight_decay")),
        epsilon_hat(attrs.GetBool("epsilon_hat")) {}

  template <class T>
  auto At(double lr, double step) const {
    const double correction2 = std::sqrt(1.0 - std::pow(beta2, step));
    const T rate = static_cast<T>(lr * correction2 / (1.0 - std::pow(beta1, step)));
    const T floor = static_cast<T>(epsilon_hat ? epsilon : epsilon * correction2);
    const T keep = static_cast<T>(1.0 - lr * weight_decay);
    const T b1 = static_cast<T>(beta1);
    const T b2 = static_cast<T>(beta2);
    const T c1 = static_cast<T>(1.0 - beta1);
    const T c2 = static_cast<T>(1.0 - beta2);
    return [=](T& var, T& m, T& v, T g) {
      m = b1 * m + c1 * g;
      v = b2 * v + c2 * (g * g);
      var = keep * var - rate * SafeDivide(m, std::sqrt(v) + floor);
    };
  }

  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  bool epsilon_hat;
};

struct RmsPropRule {
  static constexpr int kSlots = 2;
  static constexpr bool kUsesStep = false;

  explicit RmsPropRule(const AttrMap& attrs)
      : decay(attrs.GetFloat("decay")),
        momentum(attrs.GetFloat("momentum")),
        epsilon(attrs.GetFloat("epsilon")) {}

  template <class T>
  auto At(double lr, double) const {
    const T rate = static_cast<T>(lr);
    const T keep = static_cast<T>(decay);
    const T take = static_cast<T>(1.0 - decay);
    const T mu = static_cast<T>(momentum);
    const T floor = static_cast<T>(epsilon);
    return [=](T& var, T& ms, T& mom, T g) {
      ms = keep * ms + take * (g * g);
      mom = mu * mom + rate * SafeDivide(g, std::sqrt(ms + floor));
      var -= mom;
    };
  }

  double decay;
  double momentum;
  double epsilon;
};

struct CenteredRmsPropRule {
  static constexpr int kSlots = 3;
  static constexpr bool kUsesStep = false;

  explicit CenteredRmsPropRule(const AttrMap& attrs) : plain(attrs) {}

  template <class T>
  auto At(double lr, double) const {
    const T rate = static_cast<T>(lr);
    const T keep = static_cast<T>(plain.decay);
    const T take = static_cast<T>(1.0 - plain.decay);
    const T mu = static_cast<T>(plain.momentum);
    const T floor = static_cast<T>(plain.epsilon);
    return [=](T& var, T& ms, T& mom, T& mg, T g) {
      mg = keep * mg + take * g;
      ms = keep * ms + take * (g * g);
      // Rounding can make the variance negative.
      const T variance = std::max(ms - mg * mg, T{0});
      mom = mu * mom + rate * SafeDivide(g, std::sqrt(variance + floor));
      var -= mom;
    };
  }

  RmsPropRule plain;
};

struct AdagradRule {
  static constexpr int kSlots = 1;
  static constexpr bool kUsesStep = false;

  explicit AdagradRule(const AttrMap& attrs) : epsilon(attrs.GetFloat("epsilon")) {}

  template <class T>
  auto At(double lr, double) const {
    const T rate = static_cast<T>(lr);
    const T floor = static_cast<T>(epsilon);
    return [=](T& var, T& accum, T g) {
      accum += g * g;
      var -= rate * SafeDivide(g, std::sqrt(accum) + floor);
    };
  }

  double epsilon;
};

}  // namespace lockstep::op
