#include "lockstep/op/internal/apply_attrs.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/op/internal/apply.h"

namespace lockstep::op {
namespace {

// The definitions of a rule's own attributes followed by those of the gradient.
std::vector<AttrDef> WithGradient(std::vector<AttrDef> defs) {
  for (AttrDef& def : GradientAttrDefs()) {
    defs.push_back(std::move(def));
  }
  return defs;
}

AttrMap WithGradient(AttrMap attrs, const GradientOptions& options) {
  attrs.Set("l2", options.l2);
  attrs.Set("grad_scale", options.grad_scale);
  return attrs;
}

AttrDef FloatDef(std::string_view name, double value) {
  return {name, AttrType::kFloat, value};
}

}  // namespace

std::vector<AttrDef> GradientAttrDefs() {
  const GradientOptions defaults;
  return {FloatDef("l2", defaults.l2), FloatDef("grad_scale", defaults.grad_scale)};
}

std::vector<AttrDef> MomentumAttrDefs() {
  const MomentumOptions defaults;
  return WithGradient(
      {FloatDef("momentum", defaults.momentum), {"nesterov", AttrType::kBool, defaults.nesterov}});
}

std::vector<AttrDef> AdamAttrDefs() {
  const AdamOptions defaults;
  return WithGradient({FloatDef("beta1", defaults.beta1),
                       FloatDef("beta2", defaults.beta2),
                       FloatDef("epsilon", defaults.epsilon),
                       FloatDef("weight_decay", defaults.weight_decay),
                       {"epsilon_hat", AttrType::kBool, defaults.epsilon_hat}});
}

std::vector<AttrDef> RmsPropAttrDefs() {
  const RmsPropOptions defaults;
  return WithGradient({FloatDef("decay", defaults.decay), FloatDef("momentum", defaults.momentum),
                       FloatDef("epsilon", defaults.epsilon)});
}

std::vector<AttrDef> AdagradAttrDefs() {
  return WithGradient({FloatDef("epsilon", AdagradOptions().epsilon)});
}

AttrMap GradientAttrs(const GradientOptions& options) {
  return WithGradient(AttrMap(), options);
}

AttrMap MomentumAttrs(const MomentumOptions& options) {
  return WithGradient({{"momentum", options.momentum}, {"nesterov", options.nesterov}},
                      options.gradient);
}

AttrMap AdamAttrs(const AdamOptions& options) {
  return WithGradient({{"beta1", options.beta1},
                       {"beta2", options.beta2},
                       {"epsilon", options.epsilon},
                       {"weight_decay", options.weight_decay},
                       {"epsilon_hat", options.epsilon_hat}},
                      options.gradient);
}

AttrMap RmsPropAttrs(const RmsPropOptions& options) {
  return WithGradient(
      {{"decay", options.decay}, {"momentum", options.momentum}, {"epsilon", options.epsilon}},
      options.gradient);
}

AttrMap AdagradAttrs(const AdagradOptions& options) {
  return WithGradient({{"epsilon", options.epsilon}}, options.gradient);
}

Status CheckGradientAttrs(const AttrMap& attrs) {
  LS_TRY(ExpectInRange(attrs, "l2"));
  if (!std::isfinite(attrs.GetFloat("grad_scale"))) {
    return InvalidArgument(fmt::format("the attribute 'grad_scale' is {}, expected a finite number",
                                       attrs.GetFloat("grad_scale")));
  }
  return OkStatus();
}

Status CheckMomentumAttrs(const AttrMap& attrs) {
  LS_TRY(ExpectInRange(attrs, "momentum"));
  return CheckGradientAttrs(attrs);
}

Status CheckAdamAttrs(const AttrMap& attrs) {
  LS_TRY(ExpectInRange(attrs, "beta1", 1.0));
  LS_TRY(ExpectInRange(attrs, "beta2", 1.0));
  LS_TRY(ExpectInRange(attrs, "epsilon"));
  LS_TRY(ExpectInRange(attrs, "weight_decay"));
  return CheckGradientAttrs(attrs);
}

Status CheckRmsPropAttrs(const AttrMap& attrs) {
  LS_TRY(ExpectInRange(attrs, "decay", 1.0));
  LS_TRY(ExpectInRange(attrs, "momentum"));
  LS_TRY(ExpectInRange(attrs, "epsilon"));
  return CheckGradientAttrs(attrs);
}

Status CheckAdagradAttrs(const AttrMap& attrs) {
  LS_TRY(ExpectInRange(attrs, "epsilon"));
  return CheckGradientAttrs(attrs);
}

GradientOptions GradientOf(const AttrMap& attrs) {
  return {.l2 = attrs.GetFloat("l2"), .grad_scale = attrs.GetFloat("grad_scale")};
}

}  // namespace lockstep::op
