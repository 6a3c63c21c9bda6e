// The geometry of a 2-D convolution, as its three products (forward, by input, by filter) share it.
#pragma once

#include <span>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/window.h"

namespace lockstep::op::internal {

struct ConvSpec {
  Shape x;
  Shape filter;  // [kh, kw, in / groups, out]
  Shape y;
  ImageAxes axes = kNhwcAxes;
  Windows windows;
  int64_t groups = 1;
  DType dtype = DType::kFloat32;
  int threads = 1;

  int64_t batch() const { return x[axes.n]; }

  int64_t in_channels() const { return x[axes.c]; }

  int64_t out_channels() const { return y[axes.c]; }
};

// Checks attributes and the shapes of x and filter, and derives y. Dimensions of x may be unknown.
Result<ConvSpec> ResolveConv(const AttrMap& attrs, const Shape& x, const Shape& filter);

// The attributes of all convolutions, and those of `more`.
std::vector<AttrDef> ConvAttrs(const std::vector<AttrDef>& more = {});

// Calls visit(x offset, filter offset, y offset) for every product that the convolution adds up, on
// row-major tensors. Used by the float64 references.
template <class Visit>
void VisitConvProducts(const ConvSpec& spec, const Visit& visit) {
  const auto offset = [](const Shape& shape, const ImageAxes& axes, int64_t n, int64_t c, int64_t h,
                         int64_t w) {
    return axes.c == 3 ? ((n * shape[1] + h) * shape[2] + w) * shape[3] + c
                       : ((n * shape[1] + c) * shape[2] + h) * shape[3] + w;
  };
  const Window& wh = spec.windows.h;
  const Window& ww = spec.windows.w;
  const int64_t in_per_group = spec.filter[2];
  const int64_t out_per_group = spec.filter[3] / spec.groups;
  for (int64_t n = 0; n < spec.batch(); ++n) {
    for (int64_t tap = 0; tap < wh.size * ww.size * in_per_group; ++tap) {
      const int64_t i = tap % in_per_group;
      const int64_t kw = tap / in_per_group % ww.size;
      const int64_t kh = tap / in_per_group / ww.size;
      for (int64_t o = 0; o < spec.filter[3]; ++o) {
        const int64_t channel = o / out_per_group * in_per_group + i;
        for (int64_t oh = 0; oh < wh.output; ++oh) {
          const int64_t ih = oh * wh.stride + kh * wh.dilation - wh.pad_low;
          if (ih < 0 || ih >= wh.input) {
            continue;
          }
          for (int64_t ow = 0; ow < ww.output; ++ow) {
            const int64_t iw = ow * ww.stride + kw * ww.dilation - ww.pad_low;
            if (iw >= 0 && iw < ww.input) {
              visit(offset(spec.x, spec.axes, n, channel, ih, iw), tap * spec.filter[3] + o,
                    offset(spec.y, spec.axes, n, o, oh, ow));
            }
          }
        }
      }
    }
  }
}

}  // namespace lockstep::op::internal
