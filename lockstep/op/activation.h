// Activation functions, element-wise on floating types.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// max(x, 0); a NaN stays; the gradient at 0 is 0.
Value Relu(BuildContext ctx, Value x);

// x where x > 0, otherwise alpha x.
Value LeakyRelu(BuildContext ctx, Value x, double alpha = 0.2);

// x where x >= 0, otherwise alpha (e^x - 1); alpha > 0.
Value Elu(BuildContext ctx, Value x, double alpha = 1.0);

// x P(X <= x) for a standard normal X (Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016), or
// their approximation 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Value Gelu(BuildContext ctx, Value x, bool approximate = false);

// x sigmoid(x).
Value Silu(BuildContext ctx, Value x);

// 1 / (1 + e^-x).
Value Sigmoid(BuildContext ctx, Value x);

Value Tanh(BuildContext ctx, Value x);

// log(1 + e^x).
Value Softplus(BuildContext ctx, Value x);

}  // namespace lockstep::op
