#include "lockstep/op/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/row_indices.h"
#include "lockstep/op/reshape.h"

namespace lockstep::op {
namespace {

// Elements of one row of [rows, ...].
int64_t RowSize(const Shape& shape) {
  int64_t size = 1;
  for (int i = 1; i < shape.rank(); ++i) {
    size *= shape[i];
  }
  return size;
}

Status GatherInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectMinRank(0, 1));
  LS_TRY(ExpectIndexType(ctx, 1));
  Shape shape = ctx.shape(1);
  if (ctx.shape(0)[0] == 0 && shape.fully_known() && shape.num_elements() > 0) {
    return InvalidArgument(fmt::format("input 0 has the shape {}: there are no rows to pick",
                                       ctx.shape(0).ToString()));
  }
  if (shape.rank() + ctx.shape(0).rank() - 1 > Shape::kMaxRank) {
    return InvalidArgument(fmt::format("indices {} of rows of {} give more than {} dimensions",
                                       shape.ToString(), ctx.shape(0).ToString(), Shape::kMaxRank));
  }
  for (int i = 1; i < ctx.shape(0).rank(); ++i) {
    shape.Append(ctx.shape(0)[i]);
  }
  LS_TRY(Shape::Create(shape.dims()).status());
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

// The gradient's rows: dy with all dimensions of the indices in one.
Status GatherGradient(GradContext& ctx) {
  const Shape& params = ctx.input(0).shape();
  Shape rows = {Shape::kUnknownDim};
  for (int i = 1; i < params.rank(); ++i) {
    if (params[i] < 0) {
      return InvalidArgument(
          fmt::format("the gradient of Gather needs rows of known size, but the "
                      "table's shape is {}",
                      params.ToString()));
    }
    rows.Append(params[i]);
  }
  const bool flat = ctx.input(1).shape().rank() == 1;
  ctx.SetSparseGrad(0, flat ? ctx.input(1) : Reshape(ctx, ctx.input(1), Shape{Shape::kUnknownDim}),
                    flat ? ctx.dy() : Reshape(ctx, ctx.dy(), rows));
  return OkStatus();
}

Result<Kernel> GatherCpu(const KernelRequest& request) {
  const TensorDesc& params = request.inputs[0];
  const TensorDesc& indices = request.inputs[1];
  const auto row_bytes = static_cast<size_t>(RowSize(params.shape)) * DTypeSize(params.dtype);
  Kernel kernel;
  kernel.run = [row_bytes, dtype = indices.dtype, rows = params.shape[0],
                count = indices.shape.num_elements(),
                threads = request.threads](const KernelArgs& args) -> Status {
    LS_TRY(CheckIndices(args.inputs[1], dtype, count, rows));
    const int64_t grain = kElementGrain / static_cast<int64_t>(row_bytes / sizeof(float) + 1) + 1;
    ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<size_t>(IndexAt(args.inputs[1], dtype, i));
        std::memcpy(args.out<char>(0) + static_cast<size_t>(i) * row_bytes,
                    args.in<char>(0) + row * row_bytes, row_bytes);
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status GatherReference(const ReferenceContext& ctx) {
  LS_TRY(CheckIndices(ctx.inputs[1], ctx.input_shapes[0][0]));
  const auto size = static_cast<size_t>(RowSize(ctx.input_shapes[0]));
  for (size_t i = 0; i < ctx.inputs[1].size(); ++i) {
    const auto row = static_cast<size_t>(ctx.inputs[1][i]);
    std::copy_n(ctx.inputs[0].begin() + static_cast<int64_t>(row * size), size,
                ctx.outputs[0].begin() + static_cast<int64_t>(i * size));
  }
  return OkStatus();
}

SampleInput Indices(const Shape& shape, std::vector<double> values, DType dtype = DType::kInt64) {
  return {.shape = shape, .dtype = dtype, .values = std::move(values)};
}

std::vector<Sample> GatherSamples() {
  return {
      {.name = "repeated", .inputs = {{.shape = {5, 3}}, Indices({2, 2}, {4, 1, 1, 0})}},
      {.name = "flat", .inputs = {{.shape = {4, 2, 3}}, Indices({3}, {3, 0, 3}, DType::kInt32)}},
      {.name = "scalar_index", .inputs = {{.shape = {6, 3}}, Indices({}, {5})}},
      {.name = "vector", .inputs = {{.shape = {6}}, Indices({4}, {5, 0, 2, 2})}},
      {.name = "bytes",
       .inputs = {{.shape = {5, 3}, .dtype = DType::kUInt8, .low = 0, .high = 9},
                  Indices({4}, {4, 1, 1, 0})}},
      {.name = "no_indices", .inputs = {{.shape = {5, 3}}, Indices({0}, {})}},
  };
}

// ---- ScatterAddRows

Status ScatterInfer(InferContext& ctx) {
  LS_TRY(ExpectIndexType(ctx, 0));
  LS_TRY(ctx.ExpectRank(0, 1));
  LS_TRY(ctx.ExpectFloating(1));
  LS_TRY(ctx.ExpectSameDType(1, 2));
  LS_TRY(ctx.ExpectMinRank(2, 1));
  Shape expected = ctx.shape(2);
  expected.set_dim(0, ctx.shape(0)[0]);
  if (!ctx.shape(1).CompatibleWith(expected)) {
    return InvalidArgument(
        fmt::format("input 1 has the shape {}, expected {}: rows like those of "
                    "input 2, one for each index",
                    ctx.shape(1).ToString(), expected.ToString()));
  }
  ctx.AddOutput(ctx.dtype(1), ctx.shape(2));
  return OkStatus();
}

Status ScatterGradient(GradContext& ctx) {
  ctx.SetGrad(1, Gather(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

Result<Kernel> ScatterCpu(const KernelRequest& request) {
  if (request.inputs[1].dtype != DType::kFloat32) {
    return Unimplemented("ScatterAddRows has a float32 kernel");
  }
  const Shape& shape = request.outputs[0].shape;
  Kernel kernel;
  kernel.run = [size = RowSize(shape), rows = shape[0], dtype = request.inputs[0].dtype,
                count = request.inputs[0].shape[0],
                threads = request.threads](const KernelArgs& args) -> Status {
    LS_TRY(CheckIndices(args.inputs[0], dtype, count, rows));
    // Each thread owns a range of the target's rows and reads all indices.
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, size));
    ParallelFor(threads, rows, grain, [&](int64_t begin, int64_t end) {
      float* y = args.out<float>(0);
      std::fill_n(y + begin * size, (end - begin) * size, 0.0F);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = IndexAt(args.inputs[0], dtype, i);
        if (row < begin || row >= end) {
          continue;
        }
        const float* from = args.in<float>(1) + i * size;
        for (int64_t c = 0; c < size; ++c) {
          y[row * size + c] += from[c];
        }
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status ScatterReference(const ReferenceContext& ctx) {
  LS_TRY(CheckIndices(ctx.inputs[0], ctx.output_shapes[0][0]));
  const auto size = static_cast<size_t>(RowSize(ctx.output_shapes[0]));
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    const auto row = static_cast<size_t>(ctx.inputs[0][i]);
    for (size_t c = 0; c < size; ++c) {
      ctx.outputs[0][row * size + c] += ctx.inputs[1][i * size + c];
    }
  }
  return OkStatus();
}

std::vector<Sample> ScatterSamples() {
  return {
      {.name = "repeated",
       .inputs = {Indices({4}, {2, 0, 2, 4}), {.shape = {4, 3}}, {.shape = {5, 3}}}},
      {.name = "vector",
       .inputs = {Indices({3}, {1, 1, 0}, DType::kInt32), {.shape = {3}}, {.shape = {2}}}},
      {.name = "nothing", .inputs = {Indices({0}, {}), {.shape = {0, 3}}, {.shape = {5, 3}}}},
  };
}

}  // namespace

OpDef GatherDef() {
  return {.name = "Gather",
          .summary = "rows of a table, picked by number",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = GatherInfer,
          .grad = GatherGradient,
          .cpu = GatherCpu,
          .reference = GatherReference,
          .samples = GatherSamples};
}

OpDef ScatterAddRowsDef() {
  return {.name = "ScatterAddRows",
          .summary = "sums rows into a table of zeros",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = ScatterInfer,
          .grad = ScatterGradient,
          .cpu = ScatterCpu,
          .reference = ScatterReference,
          .samples = ScatterSamples,
          .shape_only_inputs = 0b100};
}

Value Gather(BuildContext ctx, Value params, Value indices) {
  return ctx.Add("Gather", {params, indices});
}

Value EmbeddingLookup(BuildContext ctx, Value table, Value ids) {
  return Gather(ctx, table, ids);
}

Value ScatterAddRows(BuildContext ctx, Value indices, Value values, Value like) {
  return ctx.Add("ScatterAddRows", {indices, values, like});
}

}  // namespace lockstep::op
