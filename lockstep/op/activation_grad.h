// Gradients of activations in one pass over memory: dy times the slope, which is computed from the
// activation's input x or its output y, whichever is cheaper. All are differentiable themselves.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// dy where y > 0, otherwise 0.
Value ReluGrad(BuildContext ctx, Value dy, Value y);

// dy where x > 0, otherwise alpha dy.
Value LeakyReluGrad(BuildContext ctx, Value dy, Value x, double alpha);

// dy where y >= 0, otherwise dy (y + alpha).
Value EluGrad(BuildContext ctx, Value dy, Value y, double alpha);

Value GeluGrad(BuildContext ctx, Value dy, Value x, bool approximate);

// dy s (1 + x (1 - s)) with s = sigmoid(x).
Value SiluGrad(BuildContext ctx, Value dy, Value x);

// dy y (1 - y).
Value SigmoidGrad(BuildContext ctx, Value dy, Value y);

// dy (1 - y^2).
Value TanhGrad(BuildContext ctx, Value dy, Value y);

}  // namespace lockstep::op
