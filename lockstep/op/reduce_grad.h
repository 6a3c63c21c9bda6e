// What the gradients of reductions are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Spreads dy, of the shape that a reduction of `like` over `axes` has, over like's shape; divided
// by the number of elements in each group if `mean`. Only the shape of `like` is used.
Value ExpandReduced(BuildContext ctx, Value dy, Value like, std::vector<int64_t> axes,
                    bool keep_dims, bool mean);

// For y = ReduceMax or ReduceMin of x: 1/k at each of the k elements of a group that equal y, 0
// elsewhere. A constant to further differentiation.
Value ExtremeShares(BuildContext ctx, Value x, Value y, std::vector<int64_t> axes, bool keep_dims);

// dx_i = dy * product of the other elements of the group, right with zeros in it.
Value ReduceProdGrad(BuildContext ctx, Value dy, Value x, std::vector<int64_t> axes,
                     bool keep_dims);

}  // namespace lockstep::op
