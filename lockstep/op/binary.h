// Element-wise functions of two values, with broadcasting by NumPy's rules. Both have the same
// type; gradients are summed over what was repeated.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Numbers; integers wrap around.
Value Add(BuildContext ctx, Value x, Value y);
Value Sub(BuildContext ctx, Value x, Value y);
Value Mul(BuildContext ctx, Value x, Value y);

// A NaN in either gives NaN. Where both are equal the gradient goes to x, as in TensorFlow.
Value Maximum(BuildContext ctx, Value x, Value y);
Value Minimum(BuildContext ctx, Value x, Value y);

// Floating types only.
Value Div(BuildContext ctx, Value x, Value y);
// (x - y)^2.
Value SquaredDifference(BuildContext ctx, Value x, Value y);
// x^y as C's pow; the gradient for y is 0 where x <= 0, as in TensorFlow.
Value Pow(BuildContext ctx, Value x, Value y);

}  // namespace lockstep::op
