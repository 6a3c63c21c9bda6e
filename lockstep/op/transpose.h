// Transpose: the axes in another order.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Axis i of the result is axis perm[i] of x. Empty: the axes in reverse.
Value Transpose(BuildContext ctx, Value x, std::vector<int64_t> perm = {});

}  // namespace lockstep::op
