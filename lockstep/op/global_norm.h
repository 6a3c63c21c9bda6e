// The norm of many tensors together, and clipping by it.
#pragma once

#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// The square root of the sum of the squares of all elements of all inputs (one or more, floating,
// of one type), a scalar. The gradient at norm 0 is 0.
Value GlobalNorm(BuildContext ctx, std::vector<Value> inputs);

// clip_norm / max(norm, clip_norm): what values of this norm are multiplied with so that it becomes
// at most clip_norm (as tf.clip_by_global_norm). NaN if the norm is not finite, so that the values
// become NaN and the failure shows. clip_norm > 0.
Value ClipFactor(BuildContext ctx, Value norm, double clip_norm);

}  // namespace lockstep::op
