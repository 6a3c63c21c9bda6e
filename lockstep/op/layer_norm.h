// Layer normalisation over the last `num_axes` dimensions of x (Ba et al., 2016):
//
//   y = (x - mean) / sqrt(variance + epsilon) * scale + offset
//
// with the mean and the biased variance of each row. scale and offset have the shape of the
// normalised dimensions.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value LayerNorm(BuildContext ctx, Value x, Value scale, Value offset, int64_t num_axes = 1,
                double epsilon = 1e-5);

}  // namespace lockstep::op
