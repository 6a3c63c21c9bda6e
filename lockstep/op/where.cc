#include "lockstep/op/where.h"

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/broadcast_kernel.h"
#include "lockstep/op/internal/reference.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectDType(0, DType::kBool));
  LS_TRY(ctx.ExpectSameDType(1, 2));
  LS_ASSIGN_OR_RETURN(const Shape values, BroadcastShapes(ctx.shape(1), ctx.shape(2)));
  LS_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(ctx.shape(0), values));
  ctx.AddOutput(ctx.dtype(1), shape);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const Value condition = ctx.input(0);
  const Value inputs[] = {condition, ctx.input(1), ctx.input(2)};
  const Value zero = ScalarLike(ctx, 0.0, ctx.dy());
  ctx.SetGrad(1, SumToInput(ctx, Where(ctx, condition, ctx.dy(), zero), ctx.input(1), inputs));
  ctx.SetGrad(2, SumToInput(ctx, Where(ctx, condition, zero, ctx.dy()), ctx.input(2), inputs));
  return OkStatus();
}

struct Strides {
  int64_t condition = 0;
  int64_t x = 0;
  int64_t y = 0;
};

template <class T>
void Select(const uint8_t* condition, const T* x, const T* y, T* z, int64_t n, Strides strides) {
  const auto loop = [&](auto condition_at, auto x_at, auto y_at) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T from_x = x[x_at(i)];
      const T from_y = y[y_at(i)];
      z[i] = condition[condition_at(i)] != 0 ? from_x : from_y;
    }
  };
  const auto moving = [](int64_t i) { return i; };
  const auto fixed = [](int64_t) { return int64_t{0}; };
  if (strides.condition == 0) {
    // One side for the whole row.
    const bool takes_x = *condition != 0;
    const T* source = takes_x ? x : y;
    if ((takes_x ? strides.x : strides.y) == 0) {
      const T value = *source;
      std::fill_n(z, n, value);
    } else {
      std::copy_n(source, n, z);
    }
  } else if (strides.x == 0) {
    strides.y == 0 ? loop(moving, fixed, fixed) : loop(moving, fixed, moving);
  } else {
    strides.y == 0 ? loop(moving, moving, fixed) : loop(moving, moving, moving);
  }
}

template <class T>
Kernel WhereKernel(const KernelRequest& request) {
  Kernel kernel = ElementwiseKernel(request);
  const int threads = request.threads;
  const Shape& shape = request.outputs[0].shape;
  if (IsFlat(request)) {
    const int64_t n = shape.num_elements();
    const auto stride = [&](size_t i) {
      return request.inputs[i].shape.num_elements() == n ? int64_t{1} : int64_t{0};
    };
    const Strides strides{stride(0), stride(1), stride(2)};
    kernel.run = [=](const KernelArgs& args) {
      ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
        Select(args.in<uint8_t>(0) + begin * strides.condition, args.in<T>(1) + begin * strides.x,
               args.in<T>(2) + begin * strides.y, args.out<T>(0) + begin, end - begin, strides);
      });
      return OkStatus();
    };
    return kernel;
  }
  const Shape shapes[] = {request.inputs[0].shape, request.inputs[1].shape,
                          request.inputs[2].shape};
  const BroadcastPlan plan = MakeBroadcastPlan(shape, shapes);
  const Strides strides{plan.inner_strides[0], plan.inner_strides[1], plan.inner_strides[2]};
  kernel.run = [=](const KernelArgs& args) {
    const int64_t grain = 1 + kElementGrain / (plan.inner + 1);
    ParallelFor(threads, plan.rows, grain, [&](int64_t begin, int64_t end) {
      ForEachRow(plan, begin, end, [&](int64_t row, const BroadcastOffsets& offsets) {
        Select(args.in<uint8_t>(0) + offsets[0], args.in<T>(1) + offsets[1],
               args.in<T>(2) + offsets[2], args.out<T>(0) + row * plan.inner, plan.inner, strides);
      });
    });
    return OkStatus();
  };
  return kernel;
}

// Only the size of an element matters.
Result<Kernel> Cpu(const KernelRequest& request) {
  switch (DTypeSize(request.inputs[1].dtype)) {
    case 1:
      return WhereKernel<uint8_t>(request);
    case 2:
      return WhereKernel<uint16_t>(request);
    case 4:
      return WhereKernel<uint32_t>(request);
    default:
      return WhereKernel<uint64_t>(request);
  }
}

Status Reference(const ReferenceContext& ctx) {
  const auto at = [&](size_t input, size_t i) {
    return ctx.inputs[input][BroadcastIndex(ctx.output_shapes[0], i, ctx.input_shapes[input])];
  };
  for (size_t i = 0; i < ctx.outputs[0].size(); ++i) {
    ctx.outputs[0][i] = at(0, i) != 0.0 ? at(1, i) : at(2, i);
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  const auto condition = [](const Shape& shape) { return SampleInput{shape, DType::kBool}; };
  return {{.name = "same",
           .inputs = {condition({2, 3, 4, 5}), {Shape{2, 3, 4, 5}}, {Shape{2, 3, 4, 5}}}},
          {.name = "scalars", .inputs = {condition({3, 7}), {Shape{}}, {Shape{1}}}},
          {.name = "scalar x", .inputs = {condition({3, 7}), {Shape{}}, {Shape{3, 7}}}},
          {.name = "scalar y", .inputs = {condition({3, 7}), {Shape{3, 7}}, {Shape{}}}},
          {.name = "scalar condition", .inputs = {condition({}), {Shape{3, 7}}, {Shape{}}}},
          {.name = "rows", .inputs = {condition({3, 1}), {Shape{5}}, {Shape{3, 5}}}},
          {.name = "columns", .inputs = {condition({5}), {Shape{3, 1}}, {Shape{2, 1, 5}}}},
          {.name = "int64",
           .inputs = {condition({4}), {Shape{4}, DType::kInt64}, {Shape{4}, DType::kInt64}}},
          {.name = "bfloat16",
           .inputs = {condition({4}), {Shape{4}, DType::kBFloat16}, {Shape{4}, DType::kBFloat16}}},
          {.name = "bool", .inputs = {condition({4}), condition({4}), condition({})}}};
}

}  // namespace

OpDef WhereDef() {
  return {.name = "Where",
          .summary = "x where the condition is true, otherwise y",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Where(BuildContext ctx, Value condition, Value x, Value y) {
  return ctx.Add("Where", {condition, x, y});
}

}  // namespace lockstep::op
