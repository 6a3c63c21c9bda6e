#include "lockstep/op/one_hot.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/row_indices.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  LS_TRY(ExpectIndexType(ctx, 0));
  const int64_t depth = ctx.attrs().GetInt("depth");
  if (depth < 1) {
    return InvalidArgument(fmt::format("the attribute 'depth' is {}, allowed is 1 or more", depth));
  }
  Shape shape = ctx.shape(0);
  if (shape.rank() == Shape::kMaxRank) {
    return InvalidArgument(
        fmt::format("input 0 has the shape {}, allowed are at most {} dimensions", shape.ToString(),
                    Shape::kMaxRank - 1));
  }
  shape.Append(depth);
  LS_TRY(Shape::Create(shape.dims()).status());
  ctx.AddOutput(DType::kFloat32, shape);
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const AttrMap& attrs = request.node.attrs;
  Kernel kernel;
  kernel.run = [depth = attrs.GetInt("depth"), on = static_cast<float>(attrs.GetFloat("on")),
                off = static_cast<float>(attrs.GetFloat("off")), dtype = request.inputs[0].dtype,
                count = request.inputs[0].shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    const int64_t grain = std::max<int64_t>(1, kElementGrain / depth);
    ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
      float* y = args.out<float>(0);
      std::fill_n(y + begin * depth, (end - begin) * depth, off);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = IndexAt(args.inputs[0], dtype, i);
        if (index >= 0 && index < depth) {
          y[i * depth + index] = on;
        }
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  const AttrMap& attrs = ctx.node.attrs;
  const auto depth = static_cast<size_t>(attrs.GetInt("depth"));
  for (size_t i = 0; i < ctx.outputs[0].size(); ++i) {
    ctx.outputs[0][i] = ctx.inputs[0][i / depth] == static_cast<double>(i % depth)
                            ? attrs.GetFloat("on")
                            : attrs.GetFloat("off");
  }
  return OkStatus();
}

AttrMap Attrs(int64_t depth, double on, double off) {
  return {{"depth", depth}, {"on", on}, {"off", off}};
}

std::vector<Sample> Samples() {
  return {
      {.name = "with_outside",
       .inputs = {{.shape = {5}, .dtype = DType::kInt64, .values = {0, 3, -1, 4, 2}}},
       .attrs = Attrs(4, 1.0, 0.0)},
      {.name = "on_off_matrix",
       .inputs = {{.shape = {2, 2}, .dtype = DType::kInt32, .values = {0, 3, 1, 2}}},
       .attrs = Attrs(4, 0.75, -0.25)},
      {.name = "scalar",
       .inputs = {{.shape = {}, .dtype = DType::kInt64, .values = {1}}},
       .attrs = Attrs(3, 1.0, 0.0)},
  };
}

}  // namespace

OpDef OneHotDef() {
  return {.name = "OneHot",
          .summary = "class numbers as vectors",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"depth", AttrType::kInt},
                    {"on", AttrType::kFloat, 1.0},
                    {"off", AttrType::kFloat, 0.0}},
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value OneHot(BuildContext ctx, Value indices, int64_t depth, double on, double off) {
  return ctx.Add("OneHot", {indices}, Attrs(depth, on, off));
}

}  // namespace lockstep::op
