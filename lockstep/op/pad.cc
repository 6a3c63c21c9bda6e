#include "lockstep/op/pad.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/internal/box.h"
#include "lockstep/op/slice.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  const std::vector<int64_t>& paddings = ctx.attrs().GetInts("paddings");
  const Shape& x = ctx.shape(0);
  if (paddings.size() != static_cast<size_t>(2 * x.rank())) {
    return InvalidArgument(
        fmt::format("the attribute 'paddings' has {} values, expected {}: two for each axis of {}",
                    paddings.size(), 2 * x.rank(), x.ToString()));
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t before = paddings[static_cast<size_t>(2 * i)];
    const int64_t after = paddings[static_cast<size_t>(2 * i + 1)];
    constexpr int64_t kMost = int64_t{1} << 60;
    if (before < 0 || after < 0 || before > kMost || after > kMost) {
      return InvalidArgument(
          fmt::format("the attribute 'paddings' has {} and {} for axis {}, allowed are 0 to 2^60",
                      before, after, i));
    }
    dims.push_back(x[i] < 0 ? Shape::kUnknownDim : before + x[i] + after);
  }
  LS_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status InferLike(InferContext& ctx) {
  LS_TRY(CheckBox(ctx.attrs().GetInts("begin"), ctx.shape(0), ctx.shape(1)));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(1));
  return OkStatus();
}

// Where x starts in the result.
std::vector<int64_t> BeginOf(const Node& node) {
  if (node.attrs.Find("begin") != nullptr) {
    return node.attrs.GetInts("begin");
  }
  const std::vector<int64_t>& paddings = node.attrs.GetInts("paddings");
  std::vector<int64_t> begin;
  for (size_t i = 0; i < paddings.size(); i += 2) {
    begin.push_back(paddings[i]);
  }
  return begin;
}

double ValueOf(const Node& node) {
  return node.attrs.Find("value") == nullptr ? 0.0 : node.attrs.GetFloat("value");
}

Status Gradient(GradContext& ctx) {
  ctx.SetGrad(0, SliceLike(ctx, ctx.dy(), ctx.input(0), BeginOf(ctx.node())));
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const Shape& outside = request.outputs[0].shape;
  const size_t element = DTypeSize(x.dtype);
  const double value = ValueOf(request.node);
  std::array<char, 8> bytes{};
  ConvertElements(DType::kFloat64, &value, x.dtype, bytes.data(), 1);
  const auto count = static_cast<size_t>(outside.num_elements());
  const auto offset = static_cast<size_t>(BoxOffset(BeginOf(request.node), outside)) * element;
  Kernel kernel;
  kernel.run = [copy = CopyToBox(x.shape, outside, element), offset, bytes, element, count,
                threads = request.threads](const KernelArgs& args) {
    char* y = args.out<char>(0);
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
    if (zero) {
      std::memset(y, 0, count * element);
    } else {
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(y + i * element, bytes.data(), element);
      }
    }
    copy.Run(threads, args.inputs[0], y + offset);
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  std::fill(ctx.outputs[0].begin(), ctx.outputs[0].end(), ValueOf(ctx.node));
  ForEachInBox(BeginOf(ctx.node), ctx.input_shapes[0], ctx.output_shapes[0],
               [&](size_t box, size_t at) { ctx.outputs[0][at] = ctx.inputs[0][box]; });
  return OkStatus();
}

std::vector<Sample> Samples() {
  const auto sample = [](std::string name, SampleInput x, std::vector<int64_t> paddings,
                         double value) {
    return Sample{.name = std::move(name),
                  .inputs = {std::move(x)},
                  .attrs = {{"paddings", std::move(paddings)}, {"value", value}}};
  };
  return {
      sample("images", {.shape = {2, 3, 4, 2}}, {0, 0, 1, 2, 3, 0, 0, 0}, 0.0),
      sample("value", {.shape = {3, 4}}, {1, 0, 0, 2}, -1.5),
      sample("nothing", {.shape = {3, 4}}, {0, 0, 0, 0}, 1.0),
      sample("scalar", {.shape = {}}, {}, 1.0),
      sample("int64", {.shape = {3, 4}, .dtype = DType::kInt64, .low = -9, .high = 9}, {0, 0, 1, 2},
             7.0),
  };
}

std::vector<Sample> LikeSamples() {
  return {{.name = "middle",
           .inputs = {{.shape = {4, 2, 3}}, {.shape = {4, 5, 6}}},
           .attrs = {{"begin", std::vector<int64_t>{0, 2, 1}}}}};
}

}  // namespace

OpDef PadDef() {
  return {.name = "Pad",
          .summary = "a tensor surrounded by a constant",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"paddings", AttrType::kInts}, {"value", AttrType::kFloat, 0.0}},
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef PadLikeDef() {
  return {.name = "PadLike",
          .summary = "a tensor in zeros of another tensor's shape",
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

Value Pad(BuildContext ctx, Value x, std::vector<int64_t> paddings, double value) {
  return ctx.Add("Pad", {x}, {{"paddings", std::move(paddings)}, {"value", value}});
}

Value PadLike(BuildContext ctx, Value x, Value like, std::vector<int64_t> begin) {
  return ctx.Add("PadLike", {x, like}, {{"begin", std::move(begin)}});
}

}  // namespace lockstep::op
