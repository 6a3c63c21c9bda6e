// MatMul: products of matrices, y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n].
//
// a is [..., M, K] ([..., K, M] if transpose_a), b is [..., K, N] ([..., N, K] if transpose_b). The
// dimensions in front are batches; they broadcast like element-wise ops. With K = 0 the result is
// zero.
//
// FusedMatMul (made by passes): activation(a * b + bias[N]) for rank 2, activation "none" or
// "relu".
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value MatMul(BuildContext ctx, Value a, Value b, bool transpose_a = false,
             bool transpose_b = false);

}  // namespace lockstep::op
