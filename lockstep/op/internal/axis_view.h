// AxisView: a row-major tensor as [outer, axis, inner] around one of its axes.
#pragma once

#include <cstdint>

#include "lockstep/base/result.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::op {

struct AxisView {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;
};

// `axis` counts from the end if negative; out of range is an error. The shape must be fully known.
inline Result<AxisView> MakeAxisView(const Shape& shape, int64_t axis) {
  LS_ASSIGN_OR_RETURN(const int position, NormalizeAxis(axis, shape.rank()));
  AxisView view;
  for (int i = 0; i < position; ++i) {
    view.outer *= shape[i];
  }
  view.axis = shape[position];
  for (int i = position + 1; i < shape.rank(); ++i) {
    view.inner *= shape[i];
  }
  return view;
}

}  // namespace lockstep::op
