// Square: y = x * x, element-wise.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Square(BuildContext ctx, Value x);

}  // namespace lockstep::op
