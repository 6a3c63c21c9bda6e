// OneHot: class numbers as vectors.
#pragma once

#include <cstdint>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// indices (int32 or int64) of any shape -> [indices..., depth], float32: `on` at the class, `off`
// elsewhere. A number outside [0, depth) gives `off` everywhere, as in TensorFlow.
Value OneHot(BuildContext ctx, Value indices, int64_t depth, double on = 1.0, double off = 0.0);

}  // namespace lockstep::op
