#include "lockstep/op/size.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  for (const int64_t axis : ctx.attrs().GetInts("axes")) {
    LS_TRY(NormalizeAxis(axis, ctx.shape(0).rank()).status());
  }
  ctx.AddOutput(DType::kFloat32, Shape{});
  return OkStatus();
}

int64_t SizeOf(const Shape& shape, const std::vector<int64_t>& axes) {
  if (axes.empty()) {
    return shape.num_elements();
  }
  int64_t size = 1;
  for (const int64_t axis : axes) {
    size *= shape.dim(static_cast<int>(axis));
  }
  return size;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const auto size =
      static_cast<float>(SizeOf(request.inputs[0].shape, request.node.attrs.GetInts("axes")));
  Kernel kernel;
  kernel.run = [size](const KernelArgs& args) {
    *args.out<float>(0) = size;
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  ctx.outputs[0][0] =
      static_cast<double>(SizeOf(ctx.input_shapes[0], ctx.node.attrs.GetInts("axes")));
  return OkStatus();
}

// Constant for any elements: the gradient is zero.
Status Grad(GradContext&) {
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "all", .inputs = {{.shape = {2, 3}}}},
          {.name = "axes",
           .inputs = {{.shape = {2, 3, 5}}},
           .attrs = {{"axes", std::vector<int64_t>{0, -1}}}}};
}

}  // namespace

OpDef SizeDef() {
  return {.name = "Size",
          .summary = "number of elements along axes, float32",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"axes", AttrType::kInts, std::vector<int64_t>{}}},
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples,
          .shape_only_inputs = 1};
}

Value Size(BuildContext ctx, Value x, std::vector<int64_t> axes) {
  return ctx.Add("Size", {x}, {{"axes", std::move(axes)}});
}

}  // namespace lockstep::op
