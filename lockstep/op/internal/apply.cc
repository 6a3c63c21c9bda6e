#include "lockstep/op/internal/apply.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::op {
namespace {

Result<ApplyScalars> CheckScalars(const ApplyScalars& scalars) {
  if (!(scalars.step >= 1.0)) {
    return InvalidArgument(
        fmt::format("the step is {}, allowed is 1 or more: it counts from 1", scalars.step));
  }
  return scalars;
}

}  // namespace

Status InferApplyState(InferContext& ctx, const ApplyInputs& inputs) {
  for (int i = 0; i < inputs.written(); ++i) {
    LS_TRY(ctx.ExpectDType(i, DType::kFloat32));
    LS_TRY(ctx.ExpectSameShape(i, 0));
  }
  if (inputs.uses_step) {
    const int step = inputs.step();
    LS_TRY(ctx.ExpectRank(step, 0));
    if (ctx.dtype(step) != DType::kFloat32 && ctx.dtype(step) != DType::kInt64) {
      return InvalidArgument(fmt::format("input {}, the step, is {}, expected float32 or int64",
                                         step, DTypeName(ctx.dtype(step))));
    }
  }
  LS_TRY(ctx.ExpectRank(inputs.lr(), 0));
  LS_TRY(ctx.ExpectDType(inputs.lr(), DType::kFloat32));
  ctx.AddVariableOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status InferApply(InferContext& ctx, const ApplyInputs& inputs) {
  LS_TRY(ctx.ExpectDType(inputs.grad(), DType::kFloat32));
  LS_TRY(ctx.ExpectSameShape(inputs.grad(), 0));
  return InferApplyState(ctx, inputs);
}

Status ExpectInRange(const AttrMap& attrs, std::string_view name, double limit) {
  const double value = attrs.GetFloat(name);
  if (std::isfinite(value) && value >= 0.0 && (limit == 0.0 || value < limit)) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format("the attribute '{}' is {}, allowed is 0 or more{}", name,
                                     value,
                                     limit == 0.0 ? "" : fmt::format(" and less than {}", limit)));
}

int64_t PrepareApplyKernel(const KernelRequest& request, const ApplyInputs& inputs,
                           Kernel* kernel) {
  const auto grad = static_cast<size_t>(inputs.grad());
  const TensorDesc& var = request.inputs[0];
  const Layout layout = var.flexible ? request.inputs[grad].layout : var.layout;
  kernel->input_layouts.assign(request.inputs.size(), Layout());
  for (size_t i = 0; i < static_cast<size_t>(inputs.written()); ++i) {
    kernel->input_layouts[i] = layout;
  }
  kernel->input_layouts[grad] = layout;
  kernel->output_layouts = {layout};
  kernel->alias = {0};
  return static_cast<int64_t>(layout.Bytes(var.shape, DType::kFloat32) / sizeof(float));
}

Result<ApplyScalars> ReadApplyScalars(const KernelArgs& args, const ApplyInputs& inputs,
                                      DType step_dtype) {
  ApplyScalars scalars;
  scalars.lr = args.in<float>(inputs.lr())[0];
  if (inputs.uses_step) {
    scalars.step = step_dtype == DType::kInt64
                       ? static_cast<double>(args.in<int64_t>(inputs.step())[0])
                       : args.in<float>(inputs.step())[0];
  }
  return CheckScalars(scalars);
}

Result<ApplyScalars> ReadApplyScalars(const ReferenceContext& ctx, const ApplyInputs& inputs) {
  ApplyScalars scalars;
  scalars.lr = ctx.inputs[static_cast<size_t>(inputs.lr())][0];
  if (inputs.uses_step) {
    scalars.step = ctx.inputs[static_cast<size_t>(inputs.step())][0];
  }
  return CheckScalars(scalars);
}

}  // namespace lockstep::op
