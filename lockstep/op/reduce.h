// Reductions over axes: sum, mean, max, min, product.
//
// `axes` counts from the end if negative; empty means all axes. A reduced axis disappears, or
// becomes 1 with keep_dims. Over no elements the sum is 0, the product 1, the mean NaN, the maximum
// the type's lowest value (-inf) and the minimum its highest. A NaN makes maximum and minimum NaN.
// Equal maxima (minima) share the gradient equally, as in TensorFlow. float32, int32, int64, uint8
// have kernels; the mean takes floating types only.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value ReduceSum(BuildContext ctx, Value x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Value ReduceMean(BuildContext ctx, Value x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Value ReduceMax(BuildContext ctx, Value x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Value ReduceMin(BuildContext ctx, Value x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Value ReduceProd(BuildContext ctx, Value x, std::vector<int64_t> axes = {}, bool keep_dims = false);

}  // namespace lockstep::op
