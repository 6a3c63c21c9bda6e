// Cast: elements converted to another type. Floats round to nearest even, floats to integers
// truncate and saturate (NaN becomes 0), integers to smaller integers wrap around, anything to bool
// is != 0.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// x itself if it has the type already.
Value Cast(BuildContext ctx, Value x, DType dtype);

}  // namespace lockstep::op
