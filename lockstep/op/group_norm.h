// Group normalisation of x [N, H, W, C] ("NHWC") or [N, C, H, W] ("NCHW") (Wu and He, 2018): mean
// and biased variance over the pixels and the C / groups channels of each group of each image, then
//
//   y = (x - mean) / sqrt(variance + epsilon) * scale + offset
//
// with scale and offset [C].
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

Value GroupNorm(BuildContext ctx, Value x, Value scale, Value offset, int64_t groups,
                double epsilon = 1e-5, std::string_view data_format = "NHWC");

}  // namespace lockstep::op
