// Slice: a box cut out of a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Elements [begin_i, begin_i + size_i) of each axis i; a size of -1 takes the rest of the axis. A
// box that reaches beyond x is an error.
Value Slice(BuildContext ctx, Value x, std::vector<int64_t> begin, std::vector<int64_t> size);

// The box of the shape of `like` that starts at `begin`. The elements of `like` are not used.
Value SliceLike(BuildContext ctx, Value x, Value like, std::vector<int64_t> begin);

}  // namespace lockstep::op
