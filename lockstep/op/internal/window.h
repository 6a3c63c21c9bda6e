// Sliding windows over images, shared by convolutions and pooling: the attributes strides,
// dilations, padding, explicit_paddings and data_format.
//
// Output sizes follow TensorFlow. With reach = (size - 1) * dilation + 1:
//   VALID     output = ceil((input - reach + 1) / stride), no padding
//   SAME      output = ceil(input / stride); padding = max((output - 1) * stride + reach - input,
//   0),
//             of which the smaller half comes first
//   EXPLICIT  output = floor((input + padding - reach) / stride) + 1
#pragma once

#include <array>
#include <vector>

#include "lockstep/graph/attr.h"

namespace lockstep::op::internal {

// One spatial dimension.
struct Window {
  int64_t input = 0;
  int64_t output = 0;
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_low = 0;
  // What SAME or EXPLICIT adds at the end. The last window may end before it.
  int64_t pad_high = 0;

  int64_t reach() const { return (size - 1) * dilation + 1; }
};

struct Windows {
  Window h;
  Window w;
};

// Positions of the dimensions of an image tensor of rank 4.
struct ImageAxes {
  int n;
  int c;
  int h;
  int w;
};

inline constexpr ImageAxes kNhwcAxes{.n = 0, .c = 3, .h = 1, .w = 2};
inline constexpr ImageAxes kNchwAxes{.n = 0, .c = 1, .h = 2, .w = 3};

// From the attribute data_format: "NHWC" or "NCHW".
Result<ImageAxes> ParseDataFormat(const AttrMap& attrs);

Shape MakeImageShape(const ImageAxes& axes, int64_t n, int64_t c, int64_t h, int64_t w);

// Sides above 2^40 are errors: their products with strides and dilations could overflow.
Status CheckImageSides(int64_t height, int64_t width);

// Unknown inputs give unknown outputs (and no padding). Attributes out of range, and windows that
// do not fit into a known input, are errors. `dilations` may be absent from the attributes.
Result<Windows> ResolveWindows(const AttrMap& attrs, int64_t input_h, int64_t input_w,
                               int64_t size_h, int64_t size_w);

// Declarations of strides, padding, explicit_paddings, data_format and those of `more` for an
// OpDef.
std::vector<AttrDef> WindowAttrs(const std::vector<AttrDef>& more);

}  // namespace lockstep::op::internal
