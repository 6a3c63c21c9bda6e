// Fill: a tensor of equal elements, which needs no storage in the graph.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// The shape must be fully known; `value` is converted to `dtype` as ConvertElements does.
Value Fill(BuildContext ctx, const Shape& shape, double value, DType dtype = DType::kFloat32);

}  // namespace lockstep::op
