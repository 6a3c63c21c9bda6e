// BiasAdd: one value for each channel, added to all of its elements.
//
//   BiasAdd(x [N, ..., C], bias [C])                        data_format "NHWC": the last axis
//   BiasAdd(x [N, C, ...], bias [C], "NCHW")                axis 1
//
// x has rank 2 or more. Works on plain, permuted and channel-blocked layouts alike.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value BiasAdd(BuildContext ctx, Value x, Value bias, std::string_view data_format = "NHWC");

// [C]: for each channel the sum of dy over all of its elements.
Value BiasAddGrad(BuildContext ctx, Value dy, std::string_view data_format = "NHWC");

}  // namespace lockstep::op
