// Optimizers in a graph: turns gradients into updates of variables. Slots are variables too, named
// behind the variable that they belong to: "dense/kernel/momentum".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/builder.h"
#include "lockstep/graph/grad_context.h"
#include "lockstep/train/config.h"

namespace lockstep::train {

struct GradientAndVariable {
  Gradient gradient;
  Value variable;
};

// Bounds on gradients; 0 is none. At most one is set.
struct ClipOptions {
  // Each element to [-value, value].
  double value = 0;
  // Each gradient to an L2 norm of at most this.
  double norm = 0;
  // All gradients together: g * limit / max(global norm, limit), as tf.clip_by_global_norm.
  double global_norm = 0;
};

// Dense gradients in place of the given ones (sparse ones are scattered first if anything is
// clipped).
std::vector<GradientAndVariable> ClipGradients(Builder& builder,
                                               std::vector<GradientAndVariable> gradients,
                                               const ClipOptions& options);

// Adds one update per pair and returns the group of them; null after an error in the builder. Pairs
// without a gradient are left out; that all are is an error. learning_rate: float32 scalar; step:
// float32 scalar, counted from 1.
Node* ApplyGradients(Builder& builder, const OptimizerConfig& config,
                     std::span<const GradientAndVariable> gradients, Value learning_rate,
                     Value step);

// INVALID_ARGUMENT if a pattern of decay_exclude matches none of the trainable variables: it is
// misspelt, and what it should exclude would decay.
Status CheckDecayExclude(const OptimizerConfig& config, std::span<const std::string> trainable);

// True if a pattern (with * and ?) matches the name of a variable that decay leaves alone.
bool IsExcludedFromDecay(const OptimizerConfig& config, std::string_view variable);

}  // namespace lockstep::train
