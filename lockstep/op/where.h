// Where: a choice between two values, element by element.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// x where `condition` (bool) is true, otherwise y; all three broadcast, x and y have one type.
Value Where(BuildContext ctx, Value condition, Value x, Value y);

}  // namespace lockstep::op
