#include "lockstep/op/internal/view.h"

#include <cstring>

namespace lockstep::op {
namespace {

Kernel ViewKernel(const KernelRequest& request, const Layout& layout) {
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

}  // namespace

Result<Kernel> SameShapeViewKernel(const KernelRequest& request) {
  return ViewKernel(request, request.inputs[0].layout);
}

Result<Kernel> ReshapeViewKernel(const KernelRequest& request) {
  return ViewKernel(request, Layout());
}

}  // namespace lockstep::op
