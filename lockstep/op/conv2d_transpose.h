// Conv2DTranspose: the transpose of Conv2D (tf.nn.conv2d_transpose), which upsamples by its
// strides.
//
// x is [N, H, W, I] ("NHWC") or [N, I, H, W] ("NCHW"); the filter is [kh, kw, O, I], that of the
// Conv2D which would lead from the result back to x's shape. Output size, unless output_size gives
// one that such a Conv2D turns into x's (reach = (k - 1) * dilation + 1):
//   SAME      input * stride
//   VALID     input * stride + max(reach - stride, 0)
//   EXPLICIT  (input - 1) * stride + reach - padding
#pragma once

#include <vector>

#include "lockstep/op/conv2d.h"

namespace lockstep::op {

// groups must be 1. output_size is empty or [h, w].
Value Conv2DTranspose(BuildContext ctx, Value x, Value filter, const Conv2DOptions& options = {},
                      const std::vector<int64_t>& output_size = {});

}  // namespace lockstep::op
