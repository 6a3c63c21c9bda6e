#include "lockstep/op/fill.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  const Shape& shape = ctx.attrs().Get<Shape>("shape");
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("the attribute 'shape' is {}, allowed are known dimensions", shape.ToString()));
  }
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), shape);
  return OkStatus();
}

template <class T>
Kernel MakeKernel(const KernelRequest& request) {
  const double value = request.node.attrs.GetFloat("value");
  T element = {};
  ConvertElements(DType::kFloat64, &value, request.outputs[0].dtype, &element, 1);
  Kernel kernel;
  kernel.run = [element, elements = request.outputs[0].shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    ParallelFor(threads, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      std::fill_n(args.out<T>(0) + begin, end - begin, element);
    });
    return OkStatus();
  };
  return kernel;
}

// By size of the elements: their bits are what is repeated.
Result<Kernel> Cpu(const KernelRequest& request) {
  switch (DTypeSize(request.outputs[0].dtype)) {
    case 1:
      return MakeKernel<uint8_t>(request);
    case 2:
      return MakeKernel<uint16_t>(request);
    case 4:
      return MakeKernel<uint32_t>(request);
    default:
      return MakeKernel<uint64_t>(request);
  }
}

Status Reference(const ReferenceContext& ctx) {
  std::fill(ctx.outputs[0].begin(), ctx.outputs[0].end(), ctx.node.attrs.GetFloat("value"));
  return OkStatus();
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                            DType::kInt64, DType::kUInt8, DType::kBool}) {
    samples.push_back({.name = std::string(DTypeName(dtype)),
                       .attrs = {{"shape", Shape{3, 5}}, {"dtype", dtype}, {"value", 1.0}}});
  }
  samples.push_back({.name = "scalar", .attrs = {{"shape", Shape{}}, {"value", -2.5}}});
  samples.push_back({.name = "empty", .attrs = {{"shape", Shape{0, 3}}, {"value", 1.0}}});
  return samples;
}

}  // namespace

OpDef FillDef() {
  return {.name = "Fill",
          .summary = "a tensor of equal elements",
          .attrs = {{"shape", AttrType::kShape},
                    {"dtype", AttrType::kDType, DType::kFloat32},
                    {"value", AttrType::kFloat}},
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Fill(BuildContext ctx, const Shape& shape, double value, DType dtype) {
  return ctx.Add("Fill", {}, {{"shape", shape}, {"dtype", dtype}, {"value", value}});
}

}  // namespace lockstep::op
