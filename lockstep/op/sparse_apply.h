// Optimizer updates from the gradient of a table's rows: `indices` [k] (int32 or int64) and
// `values` [k, ...], as Gather's gradient gives them. Rows that are named several times count once,
// with the sum of their values in order; rows that are not named keep their value and their slots
// (for Adam: the lazy form). Otherwise as the dense ops of apply.h, l2 included. An index out of
// range is an error when the step runs, before anything is written.
#pragma once

#include "lockstep/graph/builder.h"
#include "lockstep/op/apply.h"

namespace lockstep::op {

Value SparseApplyGradientDescent(BuildContext ctx, Value var, Value lr, Value indices, Value values,
                                 const GradientOptions& gradient = {});

Value SparseApplyMomentum(BuildContext ctx, Value var, Value accum, Value lr, Value indices,
                          Value values, const MomentumOptions& options = {});

struct AdamState {
  Value m;
  Value v;
  Value step;
};

Value SparseApplyAdam(BuildContext ctx, Value var, const AdamState& state, Value lr, Value indices,
                      Value values, const AdamOptions& options = {});

Value SparseApplyAdagrad(BuildContext ctx, Value var, Value accum, Value lr, Value indices,
                         Value values, const AdagradOptions& options = {});

}  // namespace lockstep::op
