// Comparisons and logic: bool results, with broadcasting by NumPy's rules. No gradients.
#pragma once

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Both of one type. Comparisons with NaN are false, NotEqual is true.
Value Equal(BuildContext ctx, Value x, Value y);
Value NotEqual(BuildContext ctx, Value x, Value y);
Value Less(BuildContext ctx, Value x, Value y);
Value LessEqual(BuildContext ctx, Value x, Value y);
Value Greater(BuildContext ctx, Value x, Value y);
Value GreaterEqual(BuildContext ctx, Value x, Value y);

// Of bool.
Value LogicalAnd(BuildContext ctx, Value x, Value y);
Value LogicalOr(BuildContext ctx, Value x, Value y);
Value LogicalNot(BuildContext ctx, Value x);

}  // namespace lockstep::op
