// Size: how many elements a tensor has along some axes, as a float32 scalar; along all of them if
// `axes` is empty.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Size(BuildContext ctx, Value x, std::vector<int64_t> axes = {});

}  // namespace lockstep::op
