// Losses besides the softmax cross entropies. All differentiable any number of times.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Element by element max(x, 0) - x * z + log(1 + exp(-|x|)): the cross entropy of sigmoid(x) and
// the probability z, as tf.nn.sigmoid_cross_entropy_with_logits. Same shapes and floating type.
Value SigmoidCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels);

// [N]: the mean of (prediction - target)^2 over all dimensions but the first.
Value MeanSquaredError(BuildContext ctx, Value prediction, Value target);

// [N]: the mean over all dimensions but the first of e^2 / 2 where |e| <= delta, otherwise
// delta * (|e| - delta / 2), with e = prediction - target (Huber 1964; as tf.keras.losses.Huber).
// delta > 0.
Value Huber(BuildContext ctx, Value prediction, Value target, double delta = 1.0);

}  // namespace lockstep::op
