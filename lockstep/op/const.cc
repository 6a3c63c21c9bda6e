#include "lockstep/op/const.h"

#include <cstring>

#include "lockstep/graph/op_def.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  const auto& value = ctx.attrs().Get<Tensor>("value");
  if (!value.has_value()) {
    return InvalidArgument("the attribute 'value' holds no tensor");
  }
  ctx.AddOutput(value.dtype(), value.shape());
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  Kernel kernel;
  kernel.run = [value = request.node.attrs.Get<Tensor>("value")](const KernelArgs& args) {
    std::memcpy(args.outputs[0], value.data(), value.bytes());
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  ctx.outputs[0] = ctx.node.attrs.Get<Tensor>("value").ToDoubles();
  return OkStatus();
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  const auto add = [&](std::string name, const Result<Tensor>& value) {
    if (value.ok()) {
      samples.push_back({.name = std::move(name), .attrs = {{"value", *value}}});
    }
  };
  add("matrix", Tensor::From<float>(Shape{2, 3}, {1, -2, 3, 0.5, 0, 7}));
  add("scalar int", Tensor::Scalar<int64_t>(5));
  add("empty", Tensor::Zeros(DType::kFloat32, Shape{0, 3}));
  return samples;
}

}  // namespace

OpDef ConstDef() {
  return {.name = "Const",
          .summary = "a value that is part of the graph",
          .attrs = {{"value", AttrType::kTensor}},
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Const(BuildContext ctx, const Tensor& value, std::string_view name) {
  return ctx.Add("Const", {}, {{"value", value}}, name);
}

Value Const(BuildContext ctx, const Result<Tensor>& value, std::string_view name) {
  return value.ok() ? Const(ctx, *value, name) : ctx.Fail(value.status());
}

Value Scalar(BuildContext ctx, double value, DType dtype) {
  Result<Tensor> tensor = Tensor::Allocate(dtype, Shape{});
  if (tensor.ok()) {
    ConvertElements(DType::kFloat64, &value, dtype, tensor->data(), 1);
  }
  return Const(ctx, tensor);
}

Value ScalarLike(BuildContext ctx, double value, Value x) {
  return x.valid() ? Scalar(ctx, value, x.dtype()) : Value{};
}

}  // namespace lockstep::op
