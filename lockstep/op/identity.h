// Ops that pass a value on unchanged.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Identity(BuildContext ctx, Value x, std::string_view name = {});

// No gradient passes through.
Value StopGradient(BuildContext ctx, Value x);

// The sum of x over all logical replicas. In a program of one replica it is x; strategies replace
// it where a program is replicated. Its gradient is the same sum of the gradient.
Value CrossReplicaSum(BuildContext ctx, Value x);

}  // namespace lockstep::op
