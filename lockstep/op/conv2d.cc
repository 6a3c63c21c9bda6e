#include "lockstep/op/conv2d.h"

#include <fmt/format.h>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/conv_kernel.h"
#include "lockstep/op/internal/conv_spec.h"

namespace lockstep::op {
namespace {

using internal::ConvSpec;

// Which input is what, in each of the three ops.
constexpr int kForwardX = 0;
constexpr int kForwardFilter = 1;
constexpr int kInputDy = 0;
constexpr int kInputFilter = 1;
constexpr int kInputX = 2;
constexpr int kFilterX = 0;
constexpr int kFilterDy = 1;
constexpr int kFilterFilter = 2;

Status ExpectTypes(const InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
  }
  return OkStatus();
}

Status Infer(InferContext& ctx) {
  LS_TRY(ExpectTypes(ctx));
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, internal::ResolveConv(ctx.attrs(), ctx.shape(kForwardX),
                                                                 ctx.shape(kForwardFilter)));
  ctx.AddOutput(ctx.dtype(0), spec.y);
  return OkStatus();
}

Status ExpectOutputGradient(const InferContext& ctx, int i, const Shape& expected) {
  if (!ctx.shape(i).CompatibleWith(expected)) {
    return InvalidArgument(fmt::format("the output gradient has the shape {}, expected {}",
                                       ctx.shape(i).ToString(), expected.ToString()));
  }
  return OkStatus();
}

Status InputInfer(InferContext& ctx) {
  LS_TRY(ExpectTypes(ctx));
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, internal::ResolveConv(ctx.attrs(), ctx.shape(kInputX),
                                                                 ctx.shape(kInputFilter)));
  LS_TRY(ExpectOutputGradient(ctx, kInputDy, spec.y));
  ctx.AddOutput(ctx.dtype(0), spec.x);
  return OkStatus();
}

Status FilterInfer(InferContext& ctx) {
  LS_TRY(ExpectTypes(ctx));
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, internal::ResolveConv(ctx.attrs(), ctx.shape(kFilterX),
                                                                 ctx.shape(kFilterFilter)));
  LS_TRY(ExpectOutputGradient(ctx, kFilterDy, spec.y));
  ctx.AddOutput(ctx.dtype(0), spec.filter);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const Value x = ctx.input(kForwardX);
  const Value filter = ctx.input(kForwardFilter);
  const AttrMap& attrs = ctx.attrs();
  const BuildContext build = ctx;
  ctx.SetGrad(kForwardX, build.Add("Conv2DBackpropInput", {ctx.dy(), filter, x}, attrs));
  ctx.SetGrad(kForwardFilter, build.Add("Conv2DBackpropFilter", {x, ctx.dy(), filter}, attrs));
  return OkStatus();
}

Status InputGrad(GradContext& ctx) {
  const Value dy = ctx.input(kInputDy);
  const Value filter = ctx.input(kInputFilter);
  const AttrMap& attrs = ctx.attrs();
  const BuildContext build = ctx;
  ctx.SetGrad(kInputDy, build.Add("Conv2D", {ctx.dy(), filter}, attrs));
  ctx.SetGrad(kInputFilter, build.Add("Conv2DBackpropFilter", {ctx.dy(), dy, filter}, attrs));
  return OkStatus();
}

Status FilterGrad(GradContext& ctx) {
  const Value x = ctx.input(kFilterX);
  const Value dy = ctx.input(kFilterDy);
  const AttrMap& attrs = ctx.attrs();
  const BuildContext build = ctx;
  ctx.SetGrad(kFilterX, build.Add("Conv2DBackpropInput", {dy, ctx.dy(), x}, attrs));
  ctx.SetGrad(kFilterDy, build.Add("Conv2D", {x, ctx.dy()}, attrs));
  return OkStatus();
}

Result<ConvSpec> SpecOf(const KernelRequest& request, int x, int filter) {
  LS_ASSIGN_OR_RETURN(
      ConvSpec spec,
      internal::ResolveConv(request.node.attrs, request.inputs[static_cast<size_t>(x)].shape,
                            request.inputs[static_cast<size_t>(filter)].shape));
  spec.dtype = request.inputs[0].dtype;
  spec.threads = request.threads;
  return spec;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(request, kForwardX, kForwardFilter));
  return internal::MakeConvForward(spec, {});
}

Result<Kernel> InputCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(request, kInputX, kInputFilter));
  return internal::MakeConvBackwardInput(spec);
}

Result<Kernel> FilterCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(request, kFilterX, kFilterFilter));
  return internal::MakeConvBackwardFilter(spec, request.inputs[kFilterX].layout);
}

Result<ConvSpec> SpecOf(const ReferenceContext& ctx, int x, int filter) {
  return internal::ResolveConv(ctx.node.attrs, ctx.input_shapes[static_cast<size_t>(x)],
                               ctx.input_shapes[static_cast<size_t>(filter)]);
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(ctx, kForwardX, kForwardFilter));
  internal::VisitConvProducts(spec, [&ctx](int64_t x, int64_t filter, int64_t y) {
    ctx.outputs[0][static_cast<size_t>(y)] +=
        ctx.inputs[0][static_cast<size_t>(x)] * ctx.inputs[1][static_cast<size_t>(filter)];
  });
  return OkStatus();
}

Status InputReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(ctx, kInputX, kInputFilter));
  internal::VisitConvProducts(spec, [&ctx](int64_t x, int64_t filter, int64_t y) {
    ctx.outputs[0][static_cast<size_t>(x)] +=
        ctx.inputs[0][static_cast<size_t>(y)] * ctx.inputs[1][static_cast<size_t>(filter)];
  });
  return OkStatus();
}

Status FilterReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(ctx, kFilterX, kFilterFilter));
  internal::VisitConvProducts(spec, [&ctx](int64_t x, int64_t filter, int64_t y) {
    ctx.outputs[0][static_cast<size_t>(filter)] +=
        ctx.inputs[0][static_cast<size_t>(x)] * ctx.inputs[1][static_cast<size_t>(y)];
  });
  return OkStatus();
}

// One geometry, from which the samples of all three ops are made.
struct Case {
  std::string name;
  Shape x;
  Shape filter;
  Shape y;
  AttrMap attrs;
  bool check_gradient = true;
  double tolerance = 1e-5;
};

// Of sums of several hundred products by Winograd's algorithm.
constexpr double kWinogradTolerance = 4e-5;

AttrMap Attrs(std::vector<int64_t> strides, std::string padding, int64_t groups = 1,
              std::vector<int64_t> dilations = {1, 1}, std::string format = "NHWC") {
  return {{"strides", std::move(strides)},
          {"padding", std::move(padding)},
          {"groups", groups},
          {"dilations", std::move(dilations)},
          {"data_format", std::move(format)}};
}

AttrMap ExplicitAttrs(std::vector<int64_t> paddings, std::string format) {
  AttrMap attrs = Attrs({1, 1}, "EXPLICIT", 1, {1, 1}, std::move(format));
  attrs.Set("explicit_paddings", std::move(paddings));
  return attrs;
}

std::vector<Case> Cases() {
  return {
      {"same", {2, 5, 6, 3}, {3, 3, 3, 4}, {2, 5, 6, 4}, Attrs({1, 1}, "SAME")},
      {"valid_strides", {1, 6, 7, 4}, {3, 2, 4, 3}, {1, 2, 6, 3}, Attrs({2, 1}, "VALID")},
      {"same_stride_2_even", {1, 6, 8, 2}, {3, 3, 2, 4}, {1, 3, 4, 4}, Attrs({2, 2}, "SAME")},
      {"pointwise", {2, 3, 4, 5}, {1, 1, 5, 6}, {2, 3, 4, 6}, Attrs({1, 1}, "VALID")},
      {"dilated", {1, 7, 8, 2}, {3, 3, 2, 3}, {1, 7, 8, 3}, Attrs({1, 1}, "SAME", 1, {2, 2})},
      {"groups", {1, 5, 6, 4}, {3, 3, 2, 6}, {1, 5, 6, 6}, Attrs({1, 1}, "SAME", 2)},
      {"depthwise", {2, 5, 5, 8}, {3, 3, 1, 8}, {2, 5, 5, 8}, Attrs({1, 1}, "SAME", 8)},
      {"depthwise_twice", {1, 5, 5, 3}, {3, 3, 1, 6}, {1, 3, 3, 6}, Attrs({1, 1}, "VALID", 3)},
      {"explicit", {1, 5, 6, 3}, {3, 3, 3, 4}, {1, 4, 7, 4}, ExplicitAttrs({0, 1, 2, 1}, "NHWC")},
      {"nchw", {2, 3, 5, 6}, {3, 3, 3, 4}, {2, 4, 3, 3}, Attrs({2, 2}, "SAME", 1, {1, 1}, "NCHW")},
      {"nchw_explicit",
       {1, 3, 5, 6},
       {3, 3, 3, 4},
       {1, 4, 4, 7},
       ExplicitAttrs({0, 1, 2, 1}, "NCHW")},
      // Whole blocks of channels: the blocked layouts.
      {"blocked", {2, 7, 6, 16}, {3, 3, 16, 24}, {2, 7, 6, 24}, Attrs({1, 1}, "SAME"), false},
      {"blocked_wide", {1, 5, 30, 8}, {3, 3, 8, 32}, {1, 5, 30, 32}, Attrs({1, 1}, "SAME"), false},
      {"blocked_stride_2",
       {2, 8, 9, 16},
       {3, 3, 16, 16},
       {2, 4, 5, 16},
       Attrs({2, 2}, "SAME"),
       false},
      {"blocked_pointwise_stride_2",
       {2, 8, 8, 16},
       {1, 1, 16, 32},
       {2, 4, 4, 32},
       Attrs({2, 2}, "VALID"),
       false},
      {"blocked_5x5", {2, 9, 9, 8}, {5, 5, 8, 16}, {2, 5, 5, 16}, Attrs({1, 1}, "VALID"), false},
      {"blocked_nchw",
       {2, 16, 5, 5},
       {3, 3, 16, 8},
       {2, 8, 5, 5},
       Attrs({1, 1}, "SAME", 1, {1, 1}, "NCHW"),
       false},
      // Large enough for Winograd's algorithm, with odd sizes and every padding.
      {"winograd",
       {4, 11, 9, 32},
       {3, 3, 32, 48},
       {4, 11, 9, 48},
       Attrs({1, 1}, "SAME"),
       false,
       kWinogradTolerance},
      {"winograd_valid",
       {2, 14, 15, 48},
       {3, 3, 48, 32},
       {2, 12, 13, 32},
       Attrs({1, 1}, "VALID"),
       false,
       kWinogradTolerance},
      {"winograd_explicit",
       {2, 12, 12, 32},
       {3, 3, 32, 32},
       {2, 13, 13, 32},
       ExplicitAttrs({2, 1, 1, 2}, "NHWC"),
       false,
       kWinogradTolerance},
      // Few input channels, as the first convolution of a model has.
      {"gray", {2, 9, 8, 1}, {3, 3, 1, 32}, {2, 9, 8, 32}, Attrs({1, 1}, "SAME"), false},
      {"gray_5x5", {2, 9, 12, 1}, {5, 5, 1, 8}, {2, 5, 8, 8}, Attrs({1, 1}, "VALID"), false},
      {"color_stride_2", {2, 9, 11, 3}, {7, 7, 3, 64}, {2, 5, 6, 64}, Attrs({2, 2}, "SAME"), false},
  };
}

SampleInput Spread(const Shape& shape) {
  return {.shape = shape, .low = -1.0, .high = 1.0};
}

std::vector<Sample> MakeSamples(std::vector<SampleInput> (*inputs)(const Case&)) {
  std::vector<Sample> samples;
  for (const Case& c : Cases()) {
    samples.push_back({.name = c.name,
                       .inputs = inputs(c),
                       .attrs = c.attrs,
                       .tolerance = c.tolerance,
                       .check_gradient = c.check_gradient});
  }
  return samples;
}

std::vector<Sample> Samples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {Spread(c.x), Spread(c.filter)};
  });
}

std::vector<Sample> InputSamples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {Spread(c.y), Spread(c.filter), Spread(c.x)};
  });
}

std::vector<Sample> FilterSamples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {Spread(c.x), Spread(c.y), Spread(c.filter)};
  });
}

AttrMap ToAttrs(const Conv2DOptions& options) {
  return {{"strides", options.strides},     {"padding", options.padding},
          {"dilations", options.dilations}, {"explicit_paddings", options.explicit_paddings},
          {"groups", options.groups},       {"data_format", options.data_format}};
}

}  // namespace

OpDef Conv2DDef() {
  return {.name = "Conv2D",
          .summary = "2-D convolution, also grouped and dilated",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = internal::ConvAttrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef Conv2DBackpropInputDef() {
  return {.name = "Conv2DBackpropInput",
          .summary = "gradient of Conv2D by its input",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = internal::ConvAttrs(),
          .infer = InputInfer,
          .grad = InputGrad,
          .cpu = InputCpu,
          .reference = InputReference,
          .samples = InputSamples,
          .shape_only_inputs = 1U << kInputX};
}

OpDef Conv2DBackpropFilterDef() {
  return {.name = "Conv2DBackpropFilter",
          .summary = "gradient of Conv2D by its filter",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = internal::ConvAttrs(),
          .infer = FilterInfer,
          .grad = FilterGrad,
          .cpu = FilterCpu,
          .reference = FilterReference,
          .samples = FilterSamples,
          .shape_only_inputs = 1U << kFilterFilter};
}

Value Conv2D(BuildContext ctx, Value x, Value filter, const Conv2DOptions& options) {
  return ctx.Add("Conv2D", {x, filter}, ToAttrs(options));
}

Value Conv2DBackpropInput(BuildContext ctx, Value dy, Value filter, Value x,
                          const Conv2DOptions& options) {
  return ctx.Add("Conv2DBackpropInput", {dy, filter, x}, ToAttrs(options));
}

Value Conv2DBackpropFilter(BuildContext ctx, Value x, Value dy, Value filter,
                           const Conv2DOptions& options) {
  return ctx.Add("Conv2DBackpropFilter", {x, dy, filter}, ToAttrs(options));
}

}  // namespace lockstep::op
