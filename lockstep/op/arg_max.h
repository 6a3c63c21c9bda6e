// Which class a model chose, and whether the right one is among its best.
#pragma once

#include <cstdint>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// The index of the largest element along `axis`, int64, with that axis removed. The first of equal
// elements; NaN counts as the largest, as in NumPy. The axis must not be empty.
Value ArgMax(BuildContext ctx, Value x, int64_t axis = -1);

// bool [N]: fewer than k classes have a larger logit than the label's. The rules of
// tf.math.in_top_k: classes that tie with the label do not count against it; a row with a value
// that is not finite, and a label outside [0, C), is false. logits [N, C], labels [N] int32 or
// int64, k >= 1.
Value InTopK(BuildContext ctx, Value logits, Value labels, int64_t k);

}  // namespace lockstep::op
