// Rows of a table, picked by number; and the way back.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// params [V, ...], indices (int32 or int64) of any shape -> [indices..., ...]. A number outside
// [0, V) is an error when the step runs, which names its position and the allowed range. The
// gradient for `params` is sparse: the picked rows only.
Value Gather(BuildContext ctx, Value params, Value indices);

// The same under the name that it has in models of language.
Value EmbeddingLookup(BuildContext ctx, Value table, Value ids);

// indices [k], values [k, ...], like [V, ...] -> [V, ...]: row v is the sum, in order, of the rows
// of `values` whose index is v. The elements of `like` are not used.
Value ScatterAddRows(BuildContext ctx, Value indices, Value values, Value like);

}  // namespace lockstep::op
