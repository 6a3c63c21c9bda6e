// Variables: state that outlives a step. Using a variable as an ordinary input reads it; the ops
// below write it, and return it so that whoever reads their output reads the new value.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// Declares a variable of `initial`'s type and fully known shape, named `name` in the current scope
// (with a suffix if taken), and its initialisation "name/Assign". Adds them to the collections
// variables, trainable_variables (if trainable) and initializers.
Value Variable(BuildContext ctx, std::string_view name, Value initial, bool trainable = true);

// variable = value. Shape and type must be equal.
Value Assign(BuildContext ctx, Value variable, Value value, std::string_view name = {});

// variable += value, variable -= value; float32, float64, bfloat16, int32, int64.
Value AssignAdd(BuildContext ctx, Value variable, Value value);
Value AssignSub(BuildContext ctx, Value variable, Value value);

}  // namespace lockstep::op
