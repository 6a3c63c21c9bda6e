// Cross entropy between softmax(logits) and a distribution over the classes per row.
//
//   loss_r = -sum_c q_rc * log(softmax(logits_r)_c),
//   q_rc = (1 - label_smoothing) * labels_rc + label_smoothing / C
//
// as tf.nn.softmax_cross_entropy_with_logits. Rows of labels need not sum to 1: the gradient,
// softmax(logits) * sum_c q_rc - q_rc, is then still that of the loss.
#pragma once

#include "lockstep/graph/builder.h"
#include "lockstep/op/sparse_softmax_cross_entropy.h"

namespace lockstep::op {

// logits and labels [N, C], floating, of one type. 0 <= label_smoothing < 1.
CrossEntropy SoftmaxCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels,
                                           double label_smoothing = 0.0);

// [N, C]: dloss_r * (probabilities_rc * sum_c q_rc - q_rc).
Value SoftmaxCrossEntropyGrad(BuildContext ctx, Value dloss, Value probabilities, Value labels,
                              double label_smoothing);

}  // namespace lockstep::op
