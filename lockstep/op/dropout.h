// Dropout: y_i = x_i / (1 - rate) with probability 1 - rate, otherwise 0 (inverted scaling, as in
// tf.nn.dropout). Which elements are kept is a pure function of (the step's seed, `seed`, the
// stream's name, step, replica, i); the stream is `stream`, or the node's name if empty.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// 0 <= rate < 1; x itself if the rate is 0.
Value Dropout(BuildContext ctx, Value x, double rate, int64_t seed = 0, std::string stream = {});

// dx_i = dy_i / (1 - rate) where mask_i (uint8, the second output of Dropout) is 1, otherwise 0.
Value DropoutGrad(BuildContext ctx, Value dy, Value mask, double rate);

}  // namespace lockstep::op
