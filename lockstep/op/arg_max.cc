#include "lockstep/op/arg_max.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/axis_view.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

Status ArgMaxInfer(InferContext& ctx) {
  const Shape& shape = ctx.shape(0);
  if (ctx.dtype(0) == DType::kBool) {
    return InvalidArgument("input 0 is bool, expected a number type");
  }
  LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().GetInt("axis"), shape.rank()));
  if (shape[axis] == 0) {
    return InvalidArgument(
        fmt::format("input 0 has the shape {}, whose axis {} is empty: there is "
                    "no largest element",
                    shape.ToString(), axis));
  }
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) {
      result.Append(shape[i]);
    }
  }
  ctx.AddOutput(DType::kInt64, result);
  return OkStatus();
}

// Whether `candidate` replaces `best`: larger, or the first NaN.
template <class T>
bool Beats(T candidate, T best) {
  return candidate > best || (candidate != candidate && best == best);
}

template <class T, class Index>
void FindLargest(const AxisView& view, int64_t begin, int64_t end, const T* x, Index* index) {
  for (int64_t i = begin; i < end; ++i) {
    const T* line = x + i / view.inner * view.axis * view.inner + i % view.inner;
    T best = line[0];
    int64_t at = 0;
    for (int64_t a = 1; a < view.axis; ++a) {
      const T candidate = line[a * view.inner];
      if (Beats(candidate, best)) {
        best = candidate;
        at = a;
      }
    }
    index[i] = static_cast<Index>(at);
  }
}

template <class T>
Kernel ArgMaxKernel(const AxisView& view, int threads) {
  Kernel kernel;
  kernel.run = [view, threads](const KernelArgs& args) {
    ParallelFor(threads, view.outer * view.inner, std::max<int64_t>(1, kElementGrain / view.axis),
                [&](int64_t begin, int64_t end) {
                  FindLargest(view, begin, end, args.in<T>(0), args.out<int64_t>(0));
                });
    return OkStatus();
  };
  return kernel;
}

Result<Kernel> ArgMaxCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const AxisView view,
                      MakeAxisView(request.inputs[0].shape, request.node.attrs.GetInt("axis")));
  if (view.axis == 0) {
    return InvalidArgument(
        fmt::format("input 0 has the shape {}, whose axis is empty: there is no "
                    "largest element",
                    request.inputs[0].shape.ToString()));
  }
  switch (request.inputs[0].dtype) {
    case DType::kFloat32:
      return ArgMaxKernel<float>(view, request.threads);
    case DType::kInt32:
      return ArgMaxKernel<int32_t>(view, request.threads);
    case DType::kInt64:
      return ArgMaxKernel<int64_t>(view, request.threads);
    case DType::kUInt8:
      return ArgMaxKernel<uint8_t>(view, request.threads);
    default:
      return Unimplemented("ArgMax has float32, int32, int64 and uint8 kernels");
  }
}

Status ArgMaxReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const AxisView view,
                      MakeAxisView(ctx.input_shapes[0], ctx.node.attrs.GetInt("axis")));
  FindLargest(view, 0, view.outer * view.inner, ctx.inputs[0].data(), ctx.outputs[0].data());
  return OkStatus();
}

std::vector<Sample> ArgMaxSamples() {
  const double nan = std::nan("");
  const auto sample = [](std::string name, SampleInput x, int64_t axis) {
    return Sample{.name = std::move(name),
                  .inputs = {std::move(x)},
                  .attrs = {{"axis", axis}},
                  .check_gradient = false};
  };
  return {
      sample("rows", {.shape = {4, 5}}, -1),
      sample("columns", {.shape = {4, 5}}, 0),
      sample("middle", {.shape = {2, 3, 4}}, 1),
      sample("ties_and_nan",
             {.shape = {3, 4}, .values = {1, 3, 3, 0, -1, nan, 5, nan, -2, -2, -2, -2}}, 1),
      sample("int32", {.shape = {3, 6}, .dtype = DType::kInt32, .low = -9, .high = 9}, 1),
      sample("int64", {.shape = {3, 6}, .dtype = DType::kInt64, .low = -9, .high = 9}, 1),
      sample("uint8", {.shape = {3, 6}, .dtype = DType::kUInt8, .low = 0, .high = 9}, 1),
  };
}

// ---- InTopK

Status InTopKInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectRank(0, 2));
  LS_TRY(ctx.ExpectRank(1, 1));
  if (ctx.dtype(1) != DType::kInt32 && ctx.dtype(1) != DType::kInt64) {
    return InvalidArgument(fmt::format("input 1, the labels, is {}, expected int32 or int64",
                                       DTypeName(ctx.dtype(1))));
  }
  if (!ctx.shape(1).CompatibleWith(Shape{ctx.shape(0)[0]})) {
    return InvalidArgument(
        fmt::format("{} labels for {} rows", ctx.shape(1).ToString(), ctx.shape(0).ToString()));
  }
  const int64_t k = ctx.attrs().GetInt("k");
  if (k < 1) {
    return InvalidArgument(fmt::format("the attribute 'k' is {}, allowed is 1 or more", k));
  }
  ctx.AddOutput(DType::kBool, Shape{ctx.shape(0)[0]});
  return OkStatus();
}

template <class T>
bool RowInTopK(const T* logits, int64_t classes, int64_t label, int64_t k) {
  if (label < 0 || label >= classes) {
    return false;
  }
  int64_t larger = 0;
  bool finite = true;
  for (int64_t c = 0; c < classes; ++c) {
    larger += logits[c] > logits[label] ? 1 : 0;
    finite = finite && std::isfinite(logits[c]);
  }
  return finite && larger < k;
}

template <class Label>
Kernel InTopKKernel(const Shape& shape, int64_t k, int threads) {
  Kernel kernel;
  kernel.run = [rows = shape[0], classes = shape[1], k, threads](const KernelArgs& args) {
    const float* logits = args.in<float>(0);
    const Label* labels = args.in<Label>(1);
    bool* in = args.out<bool>(0);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, classes));
    ParallelFor(threads, rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        in[r] = RowInTopK(logits + r * classes, classes, static_cast<int64_t>(labels[r]), k);
      }
    });
    return OkStatus();
  };
  return kernel;
}

Result<Kernel> InTopKCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("InTopK has a float32 kernel");
  }
  const Shape& shape = request.inputs[0].shape;
  const int64_t k = request.node.attrs.GetInt("k");
  return request.inputs[1].dtype == DType::kInt32
             ? InTopKKernel<int32_t>(shape, k, request.threads)
             : InTopKKernel<int64_t>(shape, k, request.threads);
}

Status InTopKReference(const ReferenceContext& ctx) {
  const Shape& shape = ctx.input_shapes[0];
  for (int64_t r = 0; r < shape[0]; ++r) {
    const auto row = static_cast<size_t>(r);
    ctx.outputs[0][row] =
        RowInTopK(ctx.inputs[0].data() + r * shape[1], shape[1],
                  static_cast<int64_t>(ctx.inputs[1][row]), ctx.node.attrs.GetInt("k"))
            ? 1.0
            : 0.0;
  }
  return OkStatus();
}

std::vector<Sample> InTopKSamples() {
  const double inf = HUGE_VAL;
  const SampleInput logits = {.shape = {5, 4}, .values = {1, 4, 3,   2,    // label third
                                                          5, 5, 5,   5,    // all tie
                                                          9, 1, inf, 0,    // not finite
                                                          1, 2, 3,   4,    // label first
                                                          1, 2, 3,   4}};  // no such label
  const auto sample = [&](std::string name, int64_t k, DType dtype) {
    return Sample{.name = std::move(name),
                  .inputs = {logits, {.shape = {5}, .dtype = dtype, .values = {3, 0, 0, 3, 4}}},
                  .attrs = {{"k", k}},
                  .check_gradient = false};
  };
  return {sample("top_1", 1, DType::kInt64), sample("top_2", 2, DType::kInt32),
          sample("top_3", 3, DType::kInt64), sample("more_than_classes", 10, DType::kInt64)};
}

}  // namespace

OpDef ArgMaxDef() {
  return {.name = "ArgMax",
          .summary = "index of the largest element along an axis",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"axis", AttrType::kInt, int64_t{-1}}},
          .infer = ArgMaxInfer,
          .cpu = ArgMaxCpu,
          .reference = ArgMaxReference,
          .samples = ArgMaxSamples};
}

OpDef InTopKDef() {
  return {.name = "InTopK",
          .summary = "whether a row's label is among its k largest logits",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"k", AttrType::kInt}},
          .infer = InTopKInfer,
          .cpu = InTopKCpu,
          .reference = InTopKReference,
          .samples = InTopKSamples};
}

Value ArgMax(BuildContext ctx, Value x, int64_t axis) {
  return ctx.Add("ArgMax", {x}, {{"axis", axis}});
}

Value InTopK(BuildContext ctx, Value logits, Value labels, int64_t k) {
  return ctx.Add("InTopK", {logits, labels}, {{"k", k}});
}

}  // namespace lockstep::op
