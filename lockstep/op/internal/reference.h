// Small pieces of float64 references.
#pragma once

#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// output 0 = input 0, element by element.
inline Status CopyReference(const ReferenceContext& ctx) {
  ctx.outputs[0] = ctx.inputs[0];
  return OkStatus();
}

// The index in a row-major tensor of the shape `input`, broadcast to `output`, that belongs to
// element `flat` of the output.
inline size_t BroadcastIndex(const Shape& output, size_t flat, const Shape& input) {
  auto rest = static_cast<int64_t>(flat);
  int64_t index = 0;
  int64_t stride = 1;
  for (int back = 1; back <= input.rank(); ++back) {
    const int64_t position = rest % output.dim(-back);
    rest /= output.dim(-back);
    index += input.dim(-back) == 1 ? 0 : position * stride;
    stride *= input.dim(-back);
  }
  return static_cast<size_t>(index);
}

// output 0 = f(input 0, input 1) with broadcasting.
template <class F>
Status BroadcastReference(const ReferenceContext& ctx, F f) {
  std::vector<double>& y = ctx.outputs[0];
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = f(ctx.inputs[0][BroadcastIndex(ctx.output_shapes[0], i, ctx.input_shapes[0])],
             ctx.inputs[1][BroadcastIndex(ctx.output_shapes[0], i, ctx.input_shapes[1])]);
  }
  return OkStatus();
}

}  // namespace lockstep::op
