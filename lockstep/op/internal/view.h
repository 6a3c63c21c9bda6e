// Kernels of ops whose output is the storage of input 0 under another shape.
#pragma once

#include <cstring>

#include "lockstep/graph/kernel.h"

namespace lockstep::op {

// Output 0 is input 0, both in `layout`. An input that is a variable is copied instead, so that a
// later write does not change what was read.
inline Kernel ViewKernel(const KernelRequest& request, const Layout& layout) {
  const TensorDesc& input = request.inputs[0];
  Kernel kernel;
  kernel.input_layouts.resize(request.inputs.size());
  kernel.input_layouts[0] = layout;
  kernel.output_layouts = {layout};
  if (!request.node.inputs[0].type().is_variable) {
    kernel.alias = {0};
    return kernel;
  }
  const size_t bytes = layout.Bytes(input.shape, input.dtype);
  kernel.run = [bytes](const KernelArgs& args) {
    std::memcpy(args.outputs[0], args.inputs[0], bytes);
    return OkStatus();
  };
  return kernel;
}

// For an output of the input's shape: any layout.
inline Result<Kernel> SameShapeViewKernel(const KernelRequest& request) {
  return ViewKernel(request, request.inputs[0].layout);
}

// For an output of another shape.
inline Result<Kernel> ReshapeViewKernel(const KernelRequest& request) {
  return ViewKernel(request, Layout());
}

}  // namespace lockstep::op
