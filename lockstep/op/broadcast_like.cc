#include "lockstep/op/broadcast_like.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/broadcast.h"
#include "lockstep/op/internal/broadcast_sum.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/reference.h"
#include "lockstep/op/internal/view.h"

namespace lockstep::op {
namespace {

Status CheckBroadcasts(const Shape& from, const Shape& to) {
  LS_ASSIGN_OR_RETURN(const Shape result, BroadcastShapes(from, to));
  if (!result.CompatibleWith(to)) {
    return InvalidArgument(
        fmt::format("the shape {} does not broadcast to {}", from.ToString(), to.ToString()));
  }
  return OkStatus();
}

Status BroadcastInfer(InferContext& ctx) {
  LS_TRY(CheckBroadcasts(ctx.shape(0), ctx.shape(1)));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(1));
  return OkStatus();
}

Status SumInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(CheckBroadcasts(ctx.shape(1), ctx.shape(0)));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(1));
  return OkStatus();
}

Status BroadcastGrad(GradContext& ctx) {
  ctx.SetGrad(0, SumLike(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

Status SumGrad(GradContext& ctx) {
  ctx.SetGrad(0, BroadcastLike(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

template <class T>
Kernel BroadcastKernel(const KernelRequest& request) {
  const Shape shapes[] = {request.inputs[0].shape};
  const BroadcastPlan plan = MakeBroadcastPlan(request.outputs[0].shape, shapes);
  Kernel kernel;
  kernel.run = [plan, threads = request.threads](const KernelArgs& args) {
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const int64_t grain = 1 + kElementGrain / (plan.inner + 1);
    ParallelFor(threads, plan.rows, grain, [&](int64_t begin, int64_t end) {
      ForEachRow(plan, begin, end, [&](int64_t row, const BroadcastOffsets& offsets) {
        const T* from = x + offsets[0];
        T* to = y + row * plan.inner;
        if (plan.inner_strides[0] == 0) {
          std::fill_n(to, plan.inner, *from);
        } else {
          std::copy_n(from, plan.inner, to);
        }
      });
    });
    return OkStatus();
  };
  return kernel;
}

Result<Kernel> BroadcastCpu(const KernelRequest& request) {
  if (request.inputs[0].shape == request.outputs[0].shape) {
    return SameShapeViewKernel(request);
  }
  // Only the size of an element matters.
  switch (DTypeSize(request.inputs[0].dtype)) {
    case 1:
      return BroadcastKernel<uint8_t>(request);
    case 2:
      return BroadcastKernel<uint16_t>(request);
    case 4:
      return BroadcastKernel<uint32_t>(request);
    default:
      return BroadcastKernel<uint64_t>(request);
  }
}

Result<Kernel> SumCpu(const KernelRequest& request) {
  if (request.inputs[0].shape == request.outputs[0].shape) {
    return SameShapeViewKernel(request);
  }
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("no kernel for this type");
  }
  const BroadcastSum sum(request.inputs[0].shape, request.outputs[0].shape, request.threads);
  Kernel kernel;
  kernel.scratch_bytes = sum.scratch_bytes();
  kernel.run = [sum](const KernelArgs& args) {
    sum.Run(args.in<float>(0), args.out<float>(0), static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

Status BroadcastLikeReference(const ReferenceContext& ctx) {
  std::vector<double>& y = ctx.outputs[0];
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = ctx.inputs[0][BroadcastIndex(ctx.output_shapes[0], i, ctx.input_shapes[0])];
  }
  return OkStatus();
}

Status SumLikeReference(const ReferenceContext& ctx) {
  const std::vector<double>& x = ctx.inputs[0];
  for (size_t i = 0; i < x.size(); ++i) {
    ctx.outputs[0][BroadcastIndex(ctx.input_shapes[0], i, ctx.output_shapes[0])] += x[i];
  }
  return OkStatus();
}

std::vector<Sample> BroadcastSamples() {
  return {{.name = "same", .inputs = {{Shape{2, 3}}, {Shape{2, 3}}}},
          {.name = "row", .inputs = {{Shape{3}}, {Shape{2, 3}}}},
          {.name = "channel", .inputs = {{Shape{3, 1, 1}}, {Shape{2, 3, 4, 5}}}},
          {.name = "scalar", .inputs = {{Shape{}}, {Shape{4, 3}}}},
          {.name = "int", .inputs = {{Shape{2, 1}, DType::kInt64}, {Shape{2, 5}, DType::kInt64}}}};
}

std::vector<Sample> SumSamples() {
  return {{.name = "same", .inputs = {{Shape{2, 3}}, {Shape{2, 3}}}},
          {.name = "row", .inputs = {{Shape{5, 3}}, {Shape{3}}}},
          {.name = "long column", .inputs = {{Shape{700, 19}, DType::kFloat32, 0, 1}, {Shape{19}}}},
          {.name = "channel", .inputs = {{Shape{2, 3, 4, 5}}, {Shape{3, 1, 1}}}},
          {.name = "last", .inputs = {{Shape{3, 37}}, {Shape{3, 1}}}},
          {.name = "outer and inner", .inputs = {{Shape{3, 4, 2, 5}}, {Shape{1, 4, 1, 5}}}},
          {.name = "scalar", .inputs = {{Shape{40, 30}, DType::kFloat32, 0, 1}, {Shape{}}}},
          {.name = "large scalar",
           .inputs = {{Shape{300, 300}, DType::kFloat32, 0, 1}, {Shape{}}},
           .check_gradient = false}};
}

}  // namespace

OpDef BroadcastLikeDef() {
  return {.name = "BroadcastLike",
          .summary = "x repeated to the shape of another value",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = BroadcastInfer,
          .grad = BroadcastGrad,
          .cpu = BroadcastCpu,
          .reference = BroadcastLikeReference,
          .samples = BroadcastSamples,
          .shape_only_inputs = 2};
}

OpDef SumLikeDef() {
  return {.name = "SumLike",
          .summary = "x summed down to the shape of another value",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = SumInfer,
          .grad = SumGrad,
          .cpu = SumCpu,
          .reference = SumLikeReference,
          .samples = SumSamples,
          .shape_only_inputs = 2};
}

Value BroadcastLike(BuildContext ctx, Value x, Value like) {
  return ctx.Add("BroadcastLike", {x, like});
}

Value SumLike(BuildContext ctx, Value x, Value like) {
  return ctx.Add("SumLike", {x, like});
}

Value SumToInput(BuildContext ctx, Value gradient, Value input, std::span<const Value> inputs) {
  if (!gradient.valid()) {
    return {};
  }
  const Shape& from = gradient.shape();
  const Shape& to = input.shape();
  bool equal = from.rank() == to.rank();
  for (int back = 1; equal && back <= to.rank(); ++back) {
    const int64_t dim = to.dim(-back);
    equal = dim == from.dim(-back);
    if (dim < 0) {
      // Open on both sides: the same unless another input makes it repeat.
      equal =
          equal && std::all_of(inputs.begin(), inputs.end(), [&](const Value& other) {
            return other == input || other.shape().rank() < back || other.shape().dim(-back) == 1;
          });
    }
  }
  return equal ? gradient : SumLike(ctx, gradient, input);
}

}  // namespace lockstep::op
