// Pad: a tensor surrounded by a constant.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// `paddings` has two values for each axis: how many elements of `value` come before and after x.
Value Pad(BuildContext ctx, Value x, std::vector<int64_t> paddings, double value = 0.0);

// x at `begin` in zeros of the shape of `like`, whose elements are not used.
Value PadLike(BuildContext ctx, Value x, Value like, std::vector<int64_t> begin);

}  // namespace lockstep::op
