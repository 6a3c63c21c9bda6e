// Element-wise mathematical functions of one value. Floating types; Abs, Neg, Sign and Square also
// int32 and int64.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Exp(BuildContext ctx, Value x);
Value Log(BuildContext ctx, Value x);
Value Sqrt(BuildContext ctx, Value x);
// 1 / sqrt(x).
Value Rsqrt(BuildContext ctx, Value x);
Value Square(BuildContext ctx, Value x);
// The gradient at 0 is 0.
Value Abs(BuildContext ctx, Value x);
Value Neg(BuildContext ctx, Value x);
// -1, 0 or 1; its gradient is 0.
Value Sign(BuildContext ctx, Value x);
// Its gradient is 0.
Value Floor(BuildContext ctx, Value x);
// 1 / x.
Value Reciprocal(BuildContext ctx, Value x);

// x limited to [low, high]. The gradient passes where low <= x <= high.
Value Clip(BuildContext ctx, Value x, double low, double high);
// dy where low <= x <= high, otherwise 0.
Value ClipGrad(BuildContext ctx, Value dy, Value x, double low, double high);

}  // namespace lockstep::op
