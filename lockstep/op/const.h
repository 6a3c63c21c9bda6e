// Const: a value that is part of the graph.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Const(BuildContext ctx, const Tensor& value, std::string_view name = {});
// For the usual `Const(ctx, Tensor::From<float>(...))`: a failure becomes the builder's error.
Value Const(BuildContext ctx, const Result<Tensor>& value, std::string_view name = {});

// A scalar: `value` converted to `dtype` as ConvertElements does.
Value Scalar(BuildContext ctx, double value, DType dtype = DType::kFloat32);

// A scalar of x's type.
Value ScalarLike(BuildContext ctx, double value, Value x);

}  // namespace lockstep::op
