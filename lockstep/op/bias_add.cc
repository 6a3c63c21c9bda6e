#include "lockstep/op/bias_add.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/channel_view.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/sum.h"
#include "lockstep/op/reduce_grad.h"

namespace lockstep::op {
namespace {

// Rows of fewer channels are handled several at a time, with the bias repeated.
constexpr int64_t kWideRow = 64;

Result<int> AxisOf(const Node& node, const Shape& shape) {
  return ChannelAxis(node.attrs.GetString("data_format"), shape.rank());
}

Status BiasInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectRank(1, 1));
  LS_ASSIGN_OR_RETURN(const int axis,
                      ChannelAxis(ctx.attrs().GetString("data_format"), ctx.shape(0).rank()));
  Shape shape = ctx.shape(0);
  const int64_t bias = ctx.shape(1)[0];
  if (bias >= 0 && shape[axis] >= 0 && bias != shape[axis]) {
    return InvalidArgument(
        fmt::format("input 1 has {} values, but input 0 with the shape {} has {} channels", bias,
                    shape.ToString(), shape[axis]));
  }
  shape.set_dim(axis, std::max(shape[axis], bias));
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status BiasGradient(GradContext& ctx) {
  ctx.SetGrad(0, ctx.dy());
  ctx.SetGrad(1, BiasAddGrad(ctx, ctx.dy(), ctx.attrs().GetString("data_format")));
  return OkStatus();
}

// How many rows of a narrow tensor make a wide one.
int64_t RowsTogether(const ChannelView& view) {
  return view.outer > 0 && view.groups == 1 && view.mid == 1 && view.block < kWideRow
             ? (kWideRow + view.block - 1) / view.block
             : 1;
}

void AddRows(const float* x, const float* bias, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    // y may be x.
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      y[r * width + c] = x[r * width + c] + bias[c];
    }
  }
}

// Rows of `width` values that all use the same few biases.
template <int64_t Block>
void AddBlocks(const float* x, const float* bias, int64_t count, float* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < Block; ++c) {
      y[i * Block + c] = x[i * Block + c] + bias[c];
    }
  }
}

void AddScalar(const float* x, float bias, int64_t count, float* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] + bias;
  }
}

void AddToGroup(const ChannelView& view, const float* x, const float* bias, float* y) {
  switch (view.block) {
    case 1:
      return AddScalar(x, bias[0], view.mid, y);
    case 8:
      return AddBlocks<8>(x, bias, view.mid, y);
    case 16:
      return AddBlocks<16>(x, bias, view.mid, y);
    default:
      return AddRows(x, bias, view.mid, view.block, y);
  }
}

void AddBias(const ChannelView& view, int threads, const float* x, const float* bias, float* y) {
  const int64_t unit = view.mid * view.block;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, unit));
  ParallelFor(threads, view.outer * view.groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i % view.groups;
      AddToGroup(view, x + i * unit, bias + group * view.block, y + i * unit);
    }
  });
}

void AddNarrowBias(const ChannelView& view, int threads, const float* x, const float* bias,
                   float* repeated, float* y) {
  const int64_t together = RowsTogether(view);
  for (int64_t i = 0; i < together; ++i) {
    std::copy_n(bias, view.block, repeated + i * view.block);
  }
  const int64_t width = together * view.block;
  const int64_t elements = view.outer * view.block;
  ParallelFor(threads, elements / width, kElementGrain / width, [&](int64_t begin, int64_t end) {
    AddRows(x + begin * width, repeated, end - begin, width, y + begin * width);
  });
  for (int64_t i = elements / width * width; i < elements; ++i) {
    y[i] = x[i] + repeated[i % width];
  }
}

Result<Kernel> BiasCpu(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  if (x.dtype != DType::kFloat32) {
    return Unimplemented("BiasAdd has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const int axis, AxisOf(request.node, x.shape));
  Layout layout = x.layout;
  std::optional<ChannelView> view = MakeChannelView(x.shape, layout, axis);
  if (!view.has_value()) {
    layout = Layout();
    view = MakeChannelView(x.shape, layout, axis);
  }
  Kernel kernel;
  kernel.input_layouts = {layout, Layout()};
  kernel.output_layouts = {layout};
  kernel.in_place = {0};
  const bool narrow = RowsTogether(*view) > 1;
  if (narrow) {
    kernel.scratch_bytes = static_cast<size_t>(RowsTogether(*view) * view->block) * sizeof(float);
  }
  kernel.run = [view = *view, narrow, threads = request.threads](const KernelArgs& args) {
    if (narrow) {
      AddNarrowBias(view, threads, args.in<float>(0), args.in<float>(1),
                    static_cast<float*>(args.scratch), args.out<float>(0));
    } else {
      AddBias(view, threads, args.in<float>(0), args.in<float>(1), args.out<float>(0));
    }
    return OkStatus();
  };
  return kernel;
}

Result<ChannelView> PlainView(const Node& node, const Shape& shape) {
  LS_ASSIGN_OR_RETURN(const int axis, AxisOf(node, shape));
  return *MakeChannelView(shape, Layout(), axis);
}

Status BiasReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ChannelView view, PlainView(ctx.node, ctx.input_shapes[0]));
  const int64_t unit = view.mid * view.block;
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t channel = at / unit % view.groups * view.block + at % view.block;
    ctx.outputs[0][i] = ctx.inputs[0][i] + ctx.inputs[1][static_cast<size_t>(channel)];
  }
  return OkStatus();
}

AttrMap Format(std::string_view data_format) {
  return {{"data_format", std::string(data_format)}};
}

std::vector<Sample> BiasSamples() {
  return {
      {.name = "rows", .inputs = {{.shape = {5, 3}}, {.shape = {3}}}},
      {.name = "many_narrow_rows",
       .inputs = {{.shape = {37, 10}}, {.shape = {10}}},
       .check_gradient = false},
      {.name = "wide_rows", .inputs = {{.shape = {2, 70}}, {.shape = {70}}}},
      {.name = "nhwc", .inputs = {{.shape = {2, 3, 4, 5}}, {.shape = {5}}}},
      {.name = "nchw",
       .inputs = {{.shape = {2, 5, 3, 4}}, {.shape = {5}}},
       .attrs = Format("NCHW")},
      {.name = "one_channel", .inputs = {{.shape = {2, 3, 3, 1}}, {.shape = {1}}}},
  };
}

// ---- BiasAddGrad

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const int axis,
                      ChannelAxis(ctx.attrs().GetString("data_format"), ctx.shape(0).rank()));
  ctx.AddOutput(ctx.dtype(0), Shape{ctx.shape(0)[axis]});
  return OkStatus();
}

Status GradGradient(GradContext& ctx) {
  const int rank = ctx.input(0).shape().rank();
  LS_ASSIGN_OR_RETURN(const int channel_axis,
                      ChannelAxis(ctx.attrs().GetString("data_format"), rank));
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) {
    if (i != channel_axis) {
      axes.push_back(i);
    }
  }
  ctx.SetGrad(0, ExpandReduced(ctx, ctx.dy(), ctx.input(0), std::move(axes), false, false));
  return OkStatus();
}

// Each thread takes whole groups of channels.
void SumChannels(const ChannelView& view, int threads, const float* dy, float* sums) {
  if (view.outer == 0) {
    std::fill_n(sums, view.channels(), 0.0F);
    return;
  }
  if (view.groups == 1) {
    constexpr int64_t kTile = 256;
    const int64_t tiles = (view.block + kTile - 1) / kTile;
    ParallelFor(threads, tiles, 1, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kTile;
      const int64_t width = std::min(end * kTile, view.block) - first;
      SumColumns(dy + first, view.outer * view.mid, width, view.block, false, sums + first);
    });
    return;
  }
  const int64_t unit = view.mid * view.block;
  ParallelFor(threads, view.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      float* to = sums + group * view.block;
      double total = 0.0;
      for (int64_t i = 0; i < view.outer; ++i) {
        const float* from = dy + (i * view.groups + group) * unit;
        if (view.block == 1) {
          total += SumFloats(from, view.mid);
        } else {
          SumColumns(from, view.mid, view.block, view.block, i > 0, to);
        }
      }
      if (view.block == 1) {
        to[0] = static_cast<float>(total);
      }
    }
  });
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  const TensorDesc& dy = request.inputs[0];
  if (dy.dtype != DType::kFloat32) {
    return Unimplemented("BiasAddGrad has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const int axis, AxisOf(request.node, dy.shape));
  Layout layout = dy.layout;
  std::optional<ChannelView> view = MakeChannelView(dy.shape, layout, axis);
  if (!view.has_value()) {
    layout = Layout();
    view = MakeChannelView(dy.shape, layout, axis);
  }
  Kernel kernel;
  kernel.input_layouts = {layout};
  kernel.run = [view = *view, threads = request.threads](const KernelArgs& args) {
    SumChannels(view, threads, args.in<float>(0), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

Status GradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ChannelView view, PlainView(ctx.node, ctx.input_shapes[0]));
  const int64_t unit = view.mid * view.block;
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t channel = at / unit % view.groups * view.block + at % view.block;
    ctx.outputs[0][static_cast<size_t>(channel)] += ctx.inputs[0][i];
  }
  return OkStatus();
}

std::vector<Sample> GradSamples() {
  return {
      {.name = "rows", .inputs = {{.shape = {5, 3}}}},
      {.name = "many_narrow_rows", .inputs = {{.shape = {515, 10}}}, .check_gradient = false},
      {.name = "wide_rows", .inputs = {{.shape = {3, 300}}}, .check_gradient = false},
      {.name = "nhwc", .inputs = {{.shape = {2, 3, 4, 5}}}},
      {.name = "nchw", .inputs = {{.shape = {2, 5, 3, 4}}}, .attrs = Format("NCHW")},
  };
}

}  // namespace

OpDef BiasAddDef() {
  return {.name = "BiasAdd",
          .summary = "adds one value per channel",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"data_format", AttrType::kString, std::string("NHWC")}},
          .infer = BiasInfer,
          .grad = BiasGradient,
          .cpu = BiasCpu,
          .reference = BiasReference,
          .samples = BiasSamples};
}

OpDef BiasAddGradDef() {
  return {.name = "BiasAddGrad",
          .summary = "sum over all but the channels: the gradient of a bias",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"data_format", AttrType::kString, std::string("NHWC")}},
          .infer = GradInfer,
          .grad = GradGradient,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

Value BiasAdd(BuildContext ctx, Value x, Value bias, std::string_view data_format) {
  return ctx.Add("BiasAdd", {x, bias}, Format(data_format));
}

Value BiasAddGrad(BuildContext ctx, Value dy, std::string_view data_format) {
  return ctx.Add("BiasAddGrad", {dy}, Format(data_format));
}

}  // namespace lockstep::op
