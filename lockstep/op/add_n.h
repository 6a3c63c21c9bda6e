// AddN: the sum of any number of values.
#pragma once

#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// values[0] + values[1] + ... in this order. All have one shape and one floating or integer type.
// A single value is returned as it is.
Value AddN(BuildContext ctx, const std::vector<Value>& values);

}  // namespace lockstep::op
