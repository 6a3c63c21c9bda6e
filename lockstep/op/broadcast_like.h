// Broadcasting to the shape of another value, and its gradient.
#pragma once

#include <span>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// x repeated to the shape of `like` by NumPy's rules. The elements of `like` are not used.
Value BroadcastLike(BuildContext ctx, Value x, Value like);

// x summed over the axes along which a value of `like`'s shape would repeat to x's shape: the
// gradient of BroadcastLike. Floating types. The elements of `like` are not used.
Value SumLike(BuildContext ctx, Value x, Value like);

// For gradients of broadcasting ops: `gradient`, which has the shape that all `inputs` broadcast
// to, summed to the shape of `input`; `gradient` itself where the shapes are surely equal.
Value SumToInput(BuildContext ctx, Value gradient, Value input, std::span<const Value> inputs);

}  // namespace lockstep::op
