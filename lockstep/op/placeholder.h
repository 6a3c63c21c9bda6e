// Placeholder: a value that is fed when a step runs. A dimension of -1 takes any size.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value Placeholder(BuildContext ctx, DType dtype, const Shape& shape, std::string_view name = {});

}  // namespace lockstep::op
