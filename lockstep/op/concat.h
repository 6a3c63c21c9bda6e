// Concat and Split: tensors put together and taken apart along one axis.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// The inputs (one or more, of one type and rank) one after another along `axis`; all other
// dimensions must be equal. `axis` counts from the end if negative. A gradient needs to know every
// input's size along the axis.
Value Concat(BuildContext ctx, std::vector<Value> inputs, int64_t axis);

// Parts of x along `axis`, `sizes` long, which must sum to its dimension. Empty after an error.
std::vector<Value> Split(BuildContext ctx, Value x, int64_t axis, std::vector<int64_t> sizes);

}  // namespace lockstep::op
