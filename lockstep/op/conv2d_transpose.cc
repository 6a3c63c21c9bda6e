#include "lockstep/op/conv2d_transpose.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/conv_kernel.h"
#include "lockstep/op/internal/conv_spec.h"
#include "lockstep/op/internal/window.h"

namespace lockstep::op {
namespace {

using internal::ConvSpec;
using internal::ImageAxes;

// One side of the output if none is given.
int64_t DefaultSize(const AttrMap& attrs, size_t side, int64_t input, int64_t size) {
  const int64_t stride = attrs.GetInts("strides")[side];
  const int64_t reach = (size - 1) * attrs.GetInts("dilations")[side] + 1;
  const std::string& padding = attrs.GetString("padding");
  if (padding == "SAME") {
    return input * stride;
  }
  if (padding == "VALID") {
    return input * stride + std::max<int64_t>(reach - stride, 0);
  }
  const std::vector<int64_t>& paddings = attrs.GetInts("explicit_paddings");
  return (input - 1) * stride + reach - paddings[2 * side] - paddings[2 * side + 1];
}

// The Conv2D whose input gradient this is: its x is our output, its y our input.
Result<ConvSpec> Resolve(const AttrMap& attrs, const Shape& x, const Shape& filter) {
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(attrs));
  if (x.rank() != 4 || filter.rank() != 4) {
    return InvalidArgument(
        fmt::format("a transposed convolution of {} with the filter {}: both "
                    "need rank 4",
                    x.ToString(), filter.ToString()));
  }
  const std::vector<int64_t>& wanted = attrs.GetInts("output_size");
  if (!wanted.empty() && (wanted.size() != 2 || wanted[0] < 1 || wanted[1] < 1)) {
    return InvalidArgument(fmt::format("output_size is {}, expected [height, width]",
                                       AttrToString(*attrs.Find("output_size"))));
  }
  if (attrs.GetInt("groups") != 1) {
    return Unimplemented(
        fmt::format("groups is {}, Conv2DTranspose takes 1", attrs.GetInt("groups")));
  }
  // With open sizes this checks the attributes.
  const Shape open =
      internal::MakeImageShape(axes, x[axes.n], filter[2], Shape::kUnknownDim, Shape::kUnknownDim);
  LS_ASSIGN_OR_RETURN(ConvSpec spec, internal::ResolveConv(attrs, open, filter));
  int64_t h = x[axes.h];
  int64_t w = x[axes.w];
  LS_TRY(internal::CheckImageSides(h, w));
  if (!wanted.empty()) {
    h = wanted[0];
    w = wanted[1];
  } else {
    h = h < 0 ? h : DefaultSize(attrs, 0, h, filter[0]);
    w = w < 0 ? w : DefaultSize(attrs, 1, w, filter[1]);
    if (h == 0 || w == 0 || h < Shape::kUnknownDim || w < Shape::kUnknownDim) {
      return InvalidArgument(fmt::format("the output of {} would be {} x {}", x.ToString(), h, w));
    }
  }
  const Shape y = internal::MakeImageShape(axes, x[axes.n], filter[2], h, w);
  LS_ASSIGN_OR_RETURN(spec, internal::ResolveConv(attrs, y, filter));
  if (!spec.y.CompatibleWith(x)) {
    return InvalidArgument(fmt::format(
        "the input has the shape {}, but an output of {} with the filter {} comes from {}",
        x.ToString(), y.ToString(), filter.ToString(), spec.y.ToString()));
  }
  return spec;
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, Resolve(ctx.attrs(), ctx.shape(0), ctx.shape(1)));
  ctx.AddOutput(ctx.dtype(0), spec.x);
  return OkStatus();
}

AttrMap ConvAttrs(const AttrMap& attrs) {
  AttrMap conv;
  for (const auto& [name, value] : attrs) {
    if (name != "output_size") {
      conv.Set(name, value);
    }
  }
  return conv;
}

Status Grad(GradContext& ctx) {
  const Value x = ctx.input(0);
  const Value filter = ctx.input(1);
  const AttrMap attrs = ConvAttrs(ctx.attrs());
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("Conv2D", {ctx.dy(), filter}, attrs));
  ctx.SetGrad(1, build.Add("Conv2DBackpropFilter", {ctx.dy(), x, filter}, attrs));
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(
      ConvSpec spec, Resolve(request.node.attrs, request.inputs[0].shape, request.inputs[1].shape));
  spec.dtype = request.inputs[0].dtype;
  spec.threads = request.threads;
  LS_ASSIGN_OR_RETURN(Kernel kernel, internal::MakeConvBackwardInput(spec));
  // Conv2DBackpropInput has a third input, of which it uses the shape only.
  kernel.input_layouts.resize(2);
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec,
                      Resolve(ctx.node.attrs, ctx.input_shapes[0], ctx.input_shapes[1]));
  internal::VisitConvProducts(spec, [&ctx](int64_t x, int64_t filter, int64_t y) {
    ctx.outputs[0][static_cast<size_t>(x)] +=
        ctx.inputs[0][static_cast<size_t>(y)] * ctx.inputs[1][static_cast<size_t>(filter)];
  });
  return OkStatus();
}

AttrMap SampleAttrs(std::string padding, std::vector<int64_t> output_size,
                    std::string format = "NHWC") {
  return {{"strides", std::vector<int64_t>{2, 2}},
          {"padding", std::move(padding)},
          {"output_size", std::move(output_size)},
          {"data_format", std::move(format)}};
}

std::vector<Sample> Samples() {
  AttrMap padded = SampleAttrs("EXPLICIT", {});
  padded.Set("explicit_paddings", std::vector<int64_t>{1, 0, 1, 1});
  return {{.name = "same",
           .inputs = {{.shape = {2, 3, 4, 3}}, {.shape = {3, 3, 4, 3}}},
           .attrs = SampleAttrs("SAME", {})},
          {.name = "same_odd",
           .inputs = {{.shape = {1, 3, 4, 3}}, {.shape = {3, 3, 4, 3}}},
           .attrs = SampleAttrs("SAME", {5, 7})},
          {.name = "valid",
           .inputs = {{.shape = {1, 3, 4, 3}}, {.shape = {3, 3, 2, 3}}},
           .attrs = SampleAttrs("VALID", {})},
          {.name = "valid_larger",
           .inputs = {{.shape = {1, 3, 4, 3}}, {.shape = {3, 3, 2, 3}}},
           .attrs = SampleAttrs("VALID", {8, 10})},
          {.name = "explicit",
           .inputs = {{.shape = {1, 3, 4, 3}}, {.shape = {3, 3, 2, 3}}},
           .attrs = padded},
          {.name = "nchw",
           .inputs = {{.shape = {2, 3, 3, 4}}, {.shape = {3, 3, 4, 3}}},
           .attrs = SampleAttrs("SAME", {}, "NCHW")},
          {.name = "blocked",
           .inputs = {{.shape = {2, 3, 4, 16}}, {.shape = {3, 3, 8, 16}}},
           .attrs = SampleAttrs("SAME", {}),
           .check_gradient = false}};
}

}  // namespace

OpDef Conv2DTransposeDef() {
  return {.name = "Conv2DTranspose",
          .summary = "transpose of a 2-D convolution",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = internal::ConvAttrs({{"output_size", AttrType::kInts, std::vector<int64_t>{}}}),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Conv2DTranspose(BuildContext ctx, Value x, Value filter, const Conv2DOptions& options,
                      const std::vector<int64_t>& output_size) {
  return ctx.Add("Conv2DTranspose", {x, filter},
                 {{"strides", options.strides},
                  {"padding", options.padding},
                  {"dilations", options.dilations},
                  {"explicit_paddings", options.explicit_paddings},
                  {"groups", options.groups},
                  {"output_size", output_size},
                  {"data_format", options.data_format}});
}

}  // namespace lockstep::op
