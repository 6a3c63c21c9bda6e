// Cross entropy between softmax(logits) and one class per row.
//
//   loss_r = -sum_c q_rc * log(softmax(logits_r)_c),
//   q_rc = (1 - label_smoothing) * [c == label_r] + label_smoothing / C
//
// as tf.nn.sparse_softmax_cross_entropy_with_logits and torch's cross_entropy (smoothing, ignored
// labels). A row whose label is `ignore_label` has the loss 0 and the gradient 0; any other label
// outside [0, C) is an error when the step runs, which names row, label and the allowed range.
#pragma once

#include <cstdint>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct CrossEntropy {
  Value loss;           // [N]
  Value probabilities;  // [N, C]: softmax(logits)
};

// logits [N, C] floating, labels [N] int32 or int64. 0 <= label_smoothing < 1.
CrossEntropy SparseSoftmaxCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels,
                                                 double label_smoothing = 0.0,
                                                 int64_t ignore_label = -1);

// [N, C]: dloss_r * (probabilities_rc - q_rc).
Value SparseSoftmaxCrossEntropyGrad(BuildContext ctx, Value dloss, Value probabilities,
                                    Value labels, double label_smoothing, int64_t ignore_label);

}  // namespace lockstep::op
