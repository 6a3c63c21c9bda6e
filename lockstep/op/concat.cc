#include "lockstep/op/concat.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/internal/axis_view.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/pad.h"
#include "lockstep/op/slice.h"

namespace lockstep::op {
namespace {

// One part of a tensor: for each of the `outer` positions `part_bytes` of the `whole_bytes` that
// one position has in the whole, starting at `offset`.
struct Part {
  int64_t outer = 0;
  int64_t whole_bytes = 0;
  int64_t part_bytes = 0;
  int64_t offset = 0;
};

// The parts of `whole` along the axis with these sizes.
Result<std::vector<Part>> PartsOf(const Shape& whole, int64_t axis, DType dtype,
                                  std::span<const int64_t> sizes) {
  LS_ASSIGN_OR_RETURN(const AxisView view, MakeAxisView(whole, axis));
  const int64_t step = view.inner * static_cast<int64_t>(DTypeSize(dtype));
  std::vector<Part> parts;
  int64_t offset = 0;
  for (const int64_t size : sizes) {
    parts.push_back({view.outer, view.axis * step, size * step, offset});
    offset += size * step;
  }
  return parts;
}

void CopyFromPart(const Part& part, const char* from, char* whole) {
  for (int64_t o = 0; o < part.outer; ++o) {
    std::memcpy(whole + o * part.whole_bytes + part.offset, from + o * part.part_bytes,
                static_cast<size_t>(part.part_bytes));
  }
}

void CopyToPart(const Part& part, const char* whole, char* to) {
  for (int64_t o = 0; o < part.outer; ++o) {
    std::memcpy(to + o * part.part_bytes, whole + o * part.whole_bytes + part.offset,
                static_cast<size_t>(part.part_bytes));
  }
}

// ---- Concat

Status ConcatInfer(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().GetInt("axis"), shape.rank()));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
    LS_TRY(ctx.ExpectRank(i, shape.rank()));
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t before = shape[d];
      const int64_t size = ctx.shape(i)[d];
      if (d == axis) {
        int64_t sum = Shape::kUnknownDim;
        if (before >= 0 && size >= 0 && __builtin_add_overflow(before, size, &sum)) {
          return InvalidArgument(fmt::format("the sizes along axis {} overflow", axis));
        }
        shape.set_dim(d, sum);
      } else if (before >= 0 && size >= 0 && before != size) {
        return InvalidArgument(fmt::format(
            "inputs 0 and {} have the shapes {} and {}, which differ in more than axis {}", i,
            ctx.shape(0).ToString(), ctx.shape(i).ToString(), axis));
      } else {
        shape.set_dim(d, std::max(before, size));
      }
    }
  }
  LS_TRY(Shape::Create(shape.dims()).status());
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status ConcatGradient(GradContext& ctx) {
  const int rank = ctx.input(0).shape().rank();
  LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().GetInt("axis"), rank));
  std::vector<int64_t> begin(static_cast<size_t>(rank));
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    ctx.SetGrad(i, SliceLike(ctx, ctx.dy(), ctx.input(i), begin));
    const int64_t size = ctx.input(i).shape()[axis];
    if (size < 0 && i + 1 < ctx.num_inputs()) {
      return InvalidArgument(
          fmt::format("the gradient of Concat needs the size of input {} along axis {}, but its "
                      "shape is {}",
                      i, axis, ctx.input(i).shape().ToString()));
    }
    begin[static_cast<size_t>(axis)] += size;
  }
  return OkStatus();
}

Result<Kernel> ConcatCpu(const KernelRequest& request) {
  const TensorDesc& whole = request.outputs[0];
  const int64_t axis = request.node.attrs.GetInt("axis");
  LS_ASSIGN_OR_RETURN(const int position, NormalizeAxis(axis, whole.shape.rank()));
  std::vector<int64_t> sizes;
  for (const TensorDesc& input : request.inputs) {
    sizes.push_back(input.shape[position]);
  }
  LS_ASSIGN_OR_RETURN(std::vector<Part> parts, PartsOf(whole.shape, axis, whole.dtype, sizes));
  Kernel kernel;
  kernel.run = [parts = std::move(parts), threads = request.threads](const KernelArgs& args) {
    ParallelFor(threads, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto input = static_cast<int>(i);
        CopyFromPart(parts[static_cast<size_t>(i)], args.in<char>(input), args.out<char>(0));
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status ConcatReference(const ReferenceContext& ctx) {
  const int64_t axis = ctx.node.attrs.GetInt("axis");
  LS_ASSIGN_OR_RETURN(const AxisView view, MakeAxisView(ctx.output_shapes[0], axis));
  LS_ASSIGN_OR_RETURN(const int position, NormalizeAxis(axis, ctx.output_shapes[0].rank()));
  int64_t start = 0;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) {
    const int64_t size = ctx.input_shapes[i][position];
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < size * view.inner; ++k) {
        ctx.outputs[0][static_cast<size_t>((o * view.axis + start) * view.inner + k)] =
            ctx.inputs[i][static_cast<size_t>(o * size * view.inner + k)];
      }
    }
    start += size;
  }
  return OkStatus();
}

std::vector<Sample> ConcatSamples() {
  const auto axis = [](int64_t value) { return AttrMap{{"axis", value}}; };
  return {
      {.name = "channels",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 3, 1}}, {.shape = {2, 3, 2}}},
       .attrs = axis(-1)},
      {.name = "rows", .inputs = {{.shape = {4, 3}}, {.shape = {2, 3}}}, .attrs = axis(0)},
      {.name = "middle", .inputs = {{.shape = {2, 1, 4}}, {.shape = {2, 3, 4}}}, .attrs = axis(1)},
      {.name = "one", .inputs = {{.shape = {2, 3}}}, .attrs = axis(1)},
      {.name = "with_empty", .inputs = {{.shape = {2, 0}}, {.shape = {2, 3}}}, .attrs = axis(1)},
      {.name = "int32",
       .inputs = {{.shape = {2, 2}, .dtype = DType::kInt32, .low = -9, .high = 9},
                  {.shape = {2, 3}, .dtype = DType::kInt32, .low = -9, .high = 9}},
       .attrs = axis(1)},
  };
}

// ---- Split

Status SplitInfer(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const std::vector<int64_t>& sizes = ctx.attrs().GetInts("sizes");
  LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().GetInt("axis"), x.rank()));
  if (sizes.empty()) {
    return InvalidArgument("the attribute 'sizes' is empty, expected one size or more");
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_add_overflow(sum, size, &sum)) {
      return InvalidArgument(fmt::format(
          "the attribute 'sizes' has {}, allowed are 0 and more with a sum below 2^63", size));
    }
  }
  if (x[axis] >= 0 && x[axis] != sum) {
    return InvalidArgument(
        fmt::format("the attribute 'sizes' sums to {}, but axis {} of input 0 with the shape {} "
                    "has {}",
                    sum, axis, x.ToString(), x[axis]));
  }
  for (const int64_t size : sizes) {
    Shape part = x;
    part.set_dim(axis, size);
    ctx.AddOutput(ctx.dtype(0), part);
  }
  return OkStatus();
}

// Outputs without a gradient count as zeros.
Status SplitGradient(GradContext& ctx) {
  const std::vector<int64_t>& sizes = ctx.attrs().GetInts("sizes");
  const int rank = ctx.input(0).shape().rank();
  LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().GetInt("axis"), rank));
  std::vector<int64_t> begin(static_cast<size_t>(rank));
  std::vector<Value> all;
  Value sum;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Value dy = ctx.dy(static_cast<int>(i));
    if (dy.valid()) {
      all.push_back(dy);
    }
  }
  if (all.size() == sizes.size()) {
    ctx.SetGrad(0, Concat(ctx, std::move(all), axis));
    return OkStatus();
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Value dy = ctx.dy(static_cast<int>(i));
    if (dy.valid()) {
      const Value padded = PadLike(ctx, dy, ctx.input(0), begin);
      sum = sum.valid() ? Add(ctx, sum, padded) : padded;
    }
    begin[static_cast<size_t>(axis)] += sizes[i];
  }
  ctx.SetGrad(0, sum);
  return OkStatus();
}

Result<Kernel> SplitCpu(const KernelRequest& request) {
  const TensorDesc& whole = request.inputs[0];
  LS_ASSIGN_OR_RETURN(std::vector<Part> parts,
                      PartsOf(whole.shape, request.node.attrs.GetInt("axis"), whole.dtype,
                              request.node.attrs.GetInts("sizes")));
  Kernel kernel;
  kernel.run = [parts = std::move(parts), threads = request.threads](const KernelArgs& args) {
    ParallelFor(threads, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto output = static_cast<int>(i);
        CopyToPart(parts[static_cast<size_t>(i)], args.in<char>(0), args.out<char>(output));
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status SplitReference(const ReferenceContext& ctx) {
  const std::vector<int64_t>& sizes = ctx.node.attrs.GetInts("sizes");
  LS_ASSIGN_OR_RETURN(const AxisView view,
                      MakeAxisView(ctx.input_shapes[0], ctx.node.attrs.GetInt("axis")));
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < sizes[i] * view.inner; ++k) {
        ctx.outputs[i][static_cast<size_t>(o * sizes[i] * view.inner + k)] =
            ctx.inputs[0][static_cast<size_t>((o * view.axis + start) * view.inner + k)];
      }
    }
    start += sizes[i];
  }
  return OkStatus();
}

AttrMap SplitAttrs(int64_t axis, std::vector<int64_t> sizes) {
  return {{"axis", axis}, {"sizes", std::move(sizes)}};
}

std::vector<Sample> SplitSamples() {
  return {
      {.name = "channels", .inputs = {{.shape = {2, 3, 7}}}, .attrs = SplitAttrs(-1, {4, 1, 2})},
      {.name = "middle", .inputs = {{.shape = {2, 4, 3}}}, .attrs = SplitAttrs(1, {1, 3})},
      {.name = "one", .inputs = {{.shape = {2, 3}}}, .attrs = SplitAttrs(1, {3})},
      {.name = "empty_part", .inputs = {{.shape = {2, 3}}}, .attrs = SplitAttrs(1, {0, 3})},
      {.name = "uint8",
       .inputs = {{.shape = {2, 5}, .dtype = DType::kUInt8, .low = 0, .high = 9}},
       .attrs = SplitAttrs(1, {2, 3})},
  };
}

}  // namespace

OpDef ConcatDef() {
  return {.name = "Concat",
          .summary = "tensors one after another along an axis",
          .min_inputs = 1,
          .max_inputs = OpDef::kVariadic,
          .attrs = {{"axis", AttrType::kInt}},
          .infer = ConcatInfer,
          .grad = ConcatGradient,
          .cpu = ConcatCpu,
          .reference = ConcatReference,
          .samples = ConcatSamples};
}

OpDef SplitDef() {
  return {.name = "Split",
          .summary = "parts of a tensor along an axis",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"axis", AttrType::kInt}, {"sizes", AttrType::kInts}},
          .infer = SplitInfer,
          .grad = SplitGradient,
          .cpu = SplitCpu,
          .reference = SplitReference,
          .samples = SplitSamples};
}

Value Concat(BuildContext ctx, std::vector<Value> inputs, int64_t axis) {
  return ctx.Add("Concat", std::move(inputs), {{"axis", axis}});
}

std::vector<Value> Split(BuildContext ctx, Value x, int64_t axis, std::vector<int64_t> sizes) {
  const size_t count = sizes.size();
  Node* node = ctx.AddNode("Split", {x}, SplitAttrs(axis, std::move(sizes)));
  std::vector<Value> parts;
  for (size_t i = 0; node != nullptr && i < count; ++i) {
    parts.push_back(node->output(static_cast<int>(i)));
  }
  return parts;
}

}  // namespace lockstep::op
