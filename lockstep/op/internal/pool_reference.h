// Walks pooling windows on row-major tensors, for the float64 references.
#pragma once

#include <algorithm>

#include "lockstep/op/internal/pool_kernel.h"

namespace lockstep::op::internal {

// Calls visit(x offset, y offset, tap number) for every element of every window, windows and taps
// in row-major order.
template <class Visit>
void VisitPoolTaps(const PoolSpec& spec, const Visit& visit) {
  const ImageView x = ViewImage(spec.x, spec.axes, ClassifyOrPlain(spec.x, spec.axes, Layout()));
  const ImageView y = ViewImage(spec.y, spec.axes, ClassifyOrPlain(spec.y, spec.axes, Layout()));
  const Window& h = spec.windows.h;
  const Window& w = spec.windows.w;
  const int64_t taps = h.size * w.size;
  for (int64_t plane = 0; plane < y.planes(); ++plane) {
    for (int64_t i = 0; i < y.pixels() * y.lanes * taps; ++i) {
      const int64_t tap = i % taps;
      const int64_t out = i / taps;
      const int64_t lane = out % y.lanes;
      const int64_t pixel = out / y.lanes;
      const int64_t row = pixel / y.w * h.stride - h.pad_low + tap / w.size;
      const int64_t column = pixel % y.w * w.stride - w.pad_low + tap % w.size;
      if (row >= 0 && row < x.h && column >= 0 && column < x.w) {
        visit(x.PlaneOffset(plane) + row * x.row_stride + column * x.pixel_stride + lane,
              y.PlaneOffset(plane) + out, tap);
      }
    }
  }
}

}  // namespace lockstep::op::internal
