// ReduceOp: how the values of two nodes of the reduction tree become that of the node above them.
//
//   kSum, kMean   a + b; the mean is the whole sum divided by the number of replicas, at the end
//   kProduct      a * b
//   kMax, kMin    a unless b is larger (smaller): of equal values, so of -0 and +0 too, the left
//                 one; a NaN wins, the left one of two
//
// Floating point: every node of the tree is rounded to the element type: bfloat16 is computed in
// float32 and rounded to nearest even at every node, so that the result does not depend on who
// holds which node. Who wants float32 sums of bfloat16 values gives float32 values. NaN and
// infinity follow IEEE 754; which of several NaN payloads a sum has is not stated. Integers: sums
// and products wrap around; the mean truncates toward zero.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::collective {

enum class ReduceOp { kSum, kMean, kMax, kMin, kProduct };

// "sum", "mean", "max", "min", "product".
std::string_view ReduceOpName(ReduceOp op);

// float32, bfloat16, float64, int32 and int64 can be reduced. Errors: InvalidArgument.
Status CheckReducible(DType dtype);

// out[i] = a[i] op b[i] for `count` elements, kMean as kSum. `out` may be `a` or `b`; other
// overlaps are not allowed.
void Combine(ReduceOp op, DType dtype, const void* a, const void* b, void* out, int64_t count);

// values[i] /= replicas.
void DivideByReplicas(DType dtype, void* values, int64_t count, int64_t replicas);

}  // namespace lockstep::collective
