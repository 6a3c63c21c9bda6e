// Batch normalisation of x [N, H, W, C] ("NHWC"), [N, C, H, W] ("NCHW") or [N, C], with
// TensorFlow's conventions:
//
//   mean = E[x], variance = E[(x - mean)^2] (biased) per channel over all other dimensions
//   y = (x - mean) / sqrt(variance + epsilon) * scale + offset
//
// scale, offset, mean and variance are [C], of x's type or float32. One element per channel has
// variance 0; none has mean and variance 0. No gradient passes through the mean and the variance
// that BatchNorm returns.
#pragma once

#include <string_view>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct BatchNormResult {
  Value y;
  Value mean;
  Value variance;
};

// Normalises by the batch's own statistics, for training.
BatchNormResult BatchNorm(BuildContext ctx, Value x, Value scale, Value offset,
                          double epsilon = 1e-3, std::string_view data_format = "NHWC");

// Normalises by given statistics.
Value BatchNormInference(BuildContext ctx, Value x, Value scale, Value offset, Value mean,
                         Value variance, double epsilon = 1e-3,
                         std::string_view data_format = "NHWC");

}  // namespace lockstep::op
