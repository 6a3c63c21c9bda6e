#include "lockstep/op/internal/broadcast_kernel.h"

#include <algorithm>

namespace lockstep::op {

bool IsFlat(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].shape;
  return std::all_of(request.inputs.begin(), request.inputs.end(), [&](const TensorDesc& input) {
    return input.shape == shape || input.shape.num_elements() == 1;
  });
}

Kernel ElementwiseKernel(const KernelRequest& request) {
  const TensorDesc& output = request.outputs[0];
  const Shape& shape = output.shape;
  Layout layout;
  if (IsFlat(request)) {
    for (const TensorDesc& input : request.inputs) {
      if (input.shape == shape && input.layout.is_dense_for(shape) && layout.is_plain()) {
        layout = input.layout;
      }
    }
  }
  Kernel kernel;
  kernel.output_layouts = {layout};
  kernel.in_place = {Kernel::kNone};
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& input = request.inputs[i];
    const bool full = input.shape == shape;
    kernel.input_layouts.push_back(full ? layout : Layout());
    if (full && kernel.in_place[0] == Kernel::kNone &&
        DTypeSize(input.dtype) == DTypeSize(output.dtype)) {
      kernel.in_place = {static_cast<int>(i)};
    }
  }
  return kernel;
}

}  // namespace lockstep::op
