#include "lockstep/op/slice.h"

#include <fmt/format.h>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/internal/box.h"
#include "lockstep/op/pad.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  const std::vector<int64_t>& begin = ctx.attrs().GetInts("begin");
  const std::vector<int64_t>& size = ctx.attrs().GetInts("size");
  const Shape& x = ctx.shape(0);
  const auto rank = static_cast<size_t>(x.rank());
  if (begin.size() != rank || size.size() != rank) {
    return InvalidArgument(
        fmt::format("the attributes 'begin' and 'size' have {} and {} values, but input 0 has rank "
                    "{}",
                    begin.size(), size.size(), x.rank()));
  }
  Shape result = x;
  for (size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<int>(i);
    if (size[i] < -1) {
      return InvalidArgument(fmt::format(
          "the attribute 'size' is {} for axis {}, allowed are 0 and more, or -1 for the rest",
          size[i], i));
    }
    if (size[i] >= 0) {
      result.set_dim(axis, size[i]);
    } else if (x[axis] >= 0) {
      result.set_dim(axis, std::max<int64_t>(0, x[axis] - std::max<int64_t>(0, begin[i])));
    }
  }
  LS_TRY(CheckBox(begin, result, x));
  ctx.AddOutput(ctx.dtype(0), result);
  return OkStatus();
}

Status Gradient(GradContext& ctx) {
  ctx.SetGrad(0, PadLike(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetInts("begin")));
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const size_t element = DTypeSize(x.dtype);
  const int64_t offset = BoxOffset(request.node.attrs.GetInts("begin"), x.shape);
  Kernel kernel;
  kernel.run = [copy = CopyFromBox(request.outputs[0].shape, x.shape, element),
                offset = static_cast<size_t>(offset) * element,
                threads = request.threads](const KernelArgs& args) {
    copy.Run(threads, args.in<char>(0) + offset, args.outputs[0]);
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  ForEachInBox(ctx.node.attrs.GetInts("begin"), ctx.output_shapes[0], ctx.input_shapes[0],
               [&](size_t box, size_t at) { ctx.outputs[0][box] = ctx.inputs[0][at]; });
  return OkStatus();
}

Status InferLike(InferContext& ctx) {
  LS_TRY(CheckBox(ctx.attrs().GetInts("begin"), ctx.shape(1), ctx.shape(0)));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(1));
  return OkStatus();
}

std::vector<Sample> Samples() {
  const auto sample = [](std::string name, SampleInput x, std::vector<int64_t> begin,
                         std::vector<int64_t> size) {
    return Sample{.name = std::move(name),
                  .inputs = {std::move(x)},
                  .attrs = {{"begin", std::move(begin)}, {"size", std::move(size)}}};
  };
  return {
      sample("middle", {.shape = {4, 5, 6}}, {0, 2, 1}, {-1, 2, 4}),
      sample("rows", {.shape = {4, 5, 6}}, {1, 0, 0}, {2, -1, -1}),
      sample("one_column", {.shape = {4, 6}}, {0, 3}, {4, 1}),
      sample("empty", {.shape = {4, 6}}, {0, 6}, {-1, 0}),
      sample("scalar", {.shape = {}}, {}, {}),
      sample("uint8", {.shape = {4, 6}, .dtype = DType::kUInt8, .low = 0, .high = 9}, {0, 3},
             {-1, 2}),
  };
}

std::vector<Sample> LikeSamples() {
  return {{.name = "middle",
           .inputs = {{.shape = {4, 5, 6}}, {.shape = {4, 2, 3}}},
           .attrs = {{"begin", std::vector<int64_t>{0, 2, 1}}}}};
}

}  // namespace

OpDef SliceDef() {
  return {.name = "Slice",
          .summary = "a box cut out of a tensor",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"begin", AttrType::kInts}, {"size", AttrType::kInts}},
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef SliceLikeDef() {
  return {.name = "SliceLike",
          .summary = "a box of another tensor's shape, cut out",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"begin", AttrType::kInts}},
          .infer = InferLike,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = LikeSamples,
          .shape_only_inputs = 0b10};
}

Value Slice(BuildContext ctx, Value x, std::vector<int64_t> begin, std::vector<int64_t> size) {
  return ctx.Add("Slice", {x}, {{"begin", std::move(begin)}, {"size", std::move(size)}});
}

Value SliceLike(BuildContext ctx, Value x, Value like, std::vector<int64_t> begin) {
  return ctx.Add("SliceLike", {x, like}, {{"begin", std::move(begin)}});
}

}  // namespace lockstep::op
