// Pooling over windows of images [N, H, W, C] ("NHWC") or [N, C, H, W] ("NCHW"). Padding and output
// sizes follow TensorFlow; the rules are those of Conv2D without dilation. Padding is never chosen
// as a maximum. It must be smaller than the window.
//
//   MaxPool          the largest element; the gradient goes to it, to the first of equals in
//                    row-major order of the window
//   AvgPool          the mean of the elements; with count_include_pad padding counts as zeros
//                    (PyTorch's default), without it is left out (TensorFlow's rule)
//   GlobalAveragePool  the mean over all pixels, [N, C]
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct PoolOptions {
  std::vector<int64_t> ksize = {2, 2};    // h, w; at most 256 elements for MaxPool
  std::vector<int64_t> strides = {2, 2};  // h, w
  std::string padding = "VALID";
  std::vector<int64_t> explicit_paddings = {};  // top, bottom, left, right, for "EXPLICIT"
  std::string data_format = "NHWC";
};

Value MaxPool(BuildContext ctx, Value x, const PoolOptions& options = {});

Value AvgPool(BuildContext ctx, Value x, const PoolOptions& options = {},
              bool count_include_pad = false);

Value GlobalAveragePool(BuildContext ctx, Value x, std::string_view data_format = "NHWC");

}  // namespace lockstep::op
