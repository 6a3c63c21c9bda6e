// Optimizer updates whose step length depends on the norms of a whole variable, for large batches.
// Inputs, layouts and `step` as in apply.h. g = grad_scale * grad, w = var, and |x| is the
// Euclidean norm over all elements. Where a norm that is divided by, or multiplied, is 0, the ratio
// of norms is 1 (the papers leave this open).
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct LarsOptions {
  double momentum = 0.9;
  double weight_decay = 0.0;
  double trust_coefficient = 0.001;
  double epsilon = 0.0;
  double grad_scale = 1.0;
};

// local = trust_coefficient * |w| / (|g| + weight_decay * |w| + epsilon);
// accum = momentum * accum + lr * local * (g + weight_decay * w); w -= accum.
// You, Gitman, Ginsburg, arXiv:1708.03888, algorithm 1.
Value ApplyLars(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                const LarsOptions& options = {});

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.0;
  double grad_scale = 1.0;
};

// m and v as Adam; u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * w;
// w -= lr * |w| / |u| * u. You et al., arXiv:1904.00962, algorithm 2 with phi(z) = z.
Value ApplyLamb(BuildContext ctx, Value var, Value m, Value v, Value step, Value lr, Value grad,
                const LambOptions& options = {});

}  // namespace lockstep::op
