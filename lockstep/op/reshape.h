// Reshape: the same elements in row-major order under another shape.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// One dimension of `shape` may be -1: what the others leave over.
Value Reshape(BuildContext ctx, Value x, const Shape& shape);

// x under the shape of `like`, whose elements are not used.
Value ReshapeLike(BuildContext ctx, Value x, Value like);

// [N, ...] -> [N, product of the rest]. At most one of N and the rest may be unknown.
Value Flatten(BuildContext ctx, Value x);

}  // namespace lockstep::op
