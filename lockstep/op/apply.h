// Optimizer updates: one pass over a variable, its slots and its gradient. All are float32; lr is a
// scalar. Each returns the variable, and works on any memory layout, padding included.
//
// Below g = grad_scale * grad + l2 * var, the gradient with an L2 penalty of l2/2 * |var|^2. The
// formulas are those of TensorFlow's ops of the same names (core/kernels/training_ops.cc) except
// where another source is named. `step` is the number of this update, counted from 1, as a float32
// or int64 scalar; less than 1 is an error when the step runs.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// What every rule does to the gradient first.
struct GradientOptions {
  double l2 = 0.0;
  double grad_scale = 1.0;
};

// var -= lr * g
Value ApplyGradientDescent(BuildContext ctx, Value var, Value lr, Value grad,
                           const GradientOptions& gradient = {});

struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  GradientOptions gradient = {};
};

// accum = momentum * accum + g; var -= lr * accum, or lr * (g + momentum * accum) if nesterov.
Value ApplyMomentum(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                    const MomentumOptions& options = {});

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // Decoupled, as in AdamW (Loshchilov, Hutter, arXiv:1711.05101): var -= lr * weight_decay * var.
  double weight_decay = 0.0;
  // TensorFlow adds epsilon to sqrt(v), PyTorch (false) to sqrt(v / (1 - beta2^t)).
  bool epsilon_hat = true;
  GradientOptions gradient = {};
};

// m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
// var -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
Value ApplyAdam(BuildContext ctx, Value var, Value m, Value v, Value step, Value lr, Value grad,
                const AdamOptions& options = {});

struct RmsPropOptions {
  double decay = 0.9;
  double momentum = 0.0;
  double epsilon = 1e-10;
  GradientOptions gradient = {};
};

// ms = decay * ms + (1 - decay) * g^2; mom = momentum * mom + lr * g / sqrt(ms + epsilon);
// var -= mom
Value ApplyRmsProp(BuildContext ctx, Value var, Value ms, Value mom, Value lr, Value grad,
                   const RmsPropOptions& options = {});

// The same with ms - mg^2 in place of ms, where mg = decay * mg + (1 - decay) * g.
Value ApplyCenteredRmsProp(BuildContext ctx, Value var, Value ms, Value mom, Value mg, Value lr,
                           Value grad, const RmsPropOptions& options = {});

struct AdagradOptions {
  double epsilon = 0.0;
  GradientOptions gradient = {};
};

// accum += g^2; var -= lr * g / (sqrt(accum) + epsilon)
Value ApplyAdagrad(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                   const AdagradOptions& options = {});

}  // namespace lockstep::op
