// Steps: element-wise float32 functions on arrays of equal length, as their own kernels and fused
// chains run them. The tables name the ops that may become a part of a chain.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/graph/attr.h"
#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// The op's attributes in the order in which it declares them, at most two: floats, or booleans as 0
// and 1.
struct StepParams {
  double a = 0.0;
  double b = 0.0;
};

StepParams ReadStepParams(const OpDef& op, const AttrMap& attrs);

// y[i] = f(a[i], b[i]); steps of one input ignore b. y may be a or b itself.
using StepFn = void (*)(const float* a, const float* b, float* y, int64_t n,
                        const StepParams& params);

struct ElementwiseStep {
  std::string_view op;
  int inputs;
  StepFn run;
};

// From activation.cc, activation_grad.cc, binary.cc, unary.cc.
std::span<const ElementwiseStep> ActivationSteps();
std::span<const ElementwiseStep> ActivationGradSteps();
std::span<const ElementwiseStep> BinarySteps();
std::span<const ElementwiseStep> UnarySteps();

// Null if the op is in none of the tables.
const ElementwiseStep* FindStep(std::string_view op);

}  // namespace lockstep::op
