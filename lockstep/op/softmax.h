// Softmax along one axis, and its logarithm.
//
//   Softmax:    y_i = exp(x_i) / sum_j exp(x_j)
//   LogSoftmax: y_i = x_i - log(sum_j exp(x_j))
//
// Both shift by the maximum first, so that large values do not overflow. `axis` counts from the end
// if negative.
#pragma once

#include <cstdint>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Softmax(BuildContext ctx, Value x, int64_t axis = -1);
Value LogSoftmax(BuildContext ctx, Value x, int64_t axis = -1);

// For y = Softmax(x): y * (dy - sum(dy * y)).
Value SoftmaxGrad(BuildContext ctx, Value dy, Value y, int64_t axis = -1);
// For y = LogSoftmax(x): dy - exp(y) * sum(dy).
Value LogSoftmaxGrad(BuildContext ctx, Value dy, Value y, int64_t axis = -1);

}  // namespace lockstep::op
