// Conv2D: 2-D convolution (cross-correlation), and the two ops that its gradients are.
//
//   y[n, oh, ow, o] = sum over kh, kw, i of
//       x[n, oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad, i]
//         * filter[kh, kw, i, o]
//
// x is [N, H, W, C] (data_format "NHWC") or [N, C, H, W] ("NCHW"); the filter is [kh, kw, C/groups,
// O] for both, and output channel o reads the inputs of group o / (O/groups). Depthwise: groups =
// C. Padding "SAME" and "VALID" as TensorFlow defines them, "EXPLICIT" by explicit_paddings [top,
// bottom, left, right]. bfloat16 sums in float32.
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

struct Conv2DOptions {
  std::vector<int64_t> strides = {1, 1};  // h, w
  std::string padding = "SAME";
  std::vector<int64_t> explicit_paddings = {};
  std::vector<int64_t> dilations = {1, 1};
  int64_t groups = 1;
  std::string data_format = "NHWC";
};

Value Conv2D(BuildContext ctx, Value x, Value filter, const Conv2DOptions& options = {});

// The gradient by x; only the shape of x is used.
Value Conv2DBackpropInput(BuildContext ctx, Value dy, Value filter, Value x,
                          const Conv2DOptions& options = {});

// The gradient by the filter; only the shape of the filter is used.
Value Conv2DBackpropFilter(BuildContext ctx, Value x, Value dy, Value filter,
                           const Conv2DOptions& options = {});

}  // namespace lockstep::op
