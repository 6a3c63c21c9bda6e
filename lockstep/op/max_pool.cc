#include <fmt/format.h>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/pool_kernel.h"
#include "lockstep/op/internal/pool_reference.h"
#include "lockstep/op/pool.h"

namespace lockstep::op {
namespace {

using internal::PoolSpec;

// Inputs of MaxPoolGrad.
constexpr int kDy = 0;
constexpr int kX = 1;
constexpr int kTaps = 2;

// Taps are stored in a byte.
Result<PoolSpec> Resolve(const AttrMap& attrs, const Shape& x) {
  LS_ASSIGN_OR_RETURN(PoolSpec spec, internal::ResolvePool(attrs, x));
  const int64_t taps = spec.windows.h.size * spec.windows.w.size;
  if (taps > 256) {
    return InvalidArgument(fmt::format("a window of {} elements, MaxPool takes up to 256", taps));
  }
  return spec;
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.attrs(), ctx.shape(0)));
  ctx.AddOutput(ctx.dtype(0), spec.y);
  ctx.AddOutput(DType::kUInt8, spec.y);
  return OkStatus();
}

Status ExpectOutputShape(const InferContext& ctx, int i, const PoolSpec& spec) {
  if (!ctx.shape(i).CompatibleWith(spec.y)) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected {}", i,
                                       ctx.shape(i).ToString(), spec.y.ToString()));
  }
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(kDy));
  LS_TRY(ctx.ExpectSameDType(kDy, kX));
  LS_TRY(ctx.ExpectDType(kTaps, DType::kUInt8));
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.attrs(), ctx.shape(kX)));
  LS_TRY(ExpectOutputShape(ctx, kDy, spec));
  LS_TRY(ExpectOutputShape(ctx, kTaps, spec));
  ctx.AddOutput(ctx.dtype(kDy), spec.x);
  return OkStatus();
}

Status PickInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectDType(1, DType::kUInt8));
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.attrs(), ctx.shape(0)));
  LS_TRY(ExpectOutputShape(ctx, 1, spec));
  ctx.AddOutput(ctx.dtype(0), spec.y);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("MaxPoolGrad", {ctx.dy(), ctx.input(0), ctx.output(1)}, ctx.attrs()));
  return OkStatus();
}

Status GradGrad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(kDy, build.Add("MaxPoolPick", {ctx.dy(), ctx.input(kTaps)}, ctx.attrs()));
  return OkStatus();
}

Status PickGrad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("MaxPoolGrad", {ctx.dy(), ctx.input(0), ctx.input(1)}, ctx.attrs()));
  return OkStatus();
}

Result<PoolSpec> SpecOf(const KernelRequest& request, const Shape& x) {
  LS_ASSIGN_OR_RETURN(PoolSpec spec, Resolve(request.node.attrs, x));
  spec.dtype = request.inputs[0].dtype;
  spec.threads = request.threads;
  return spec;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, SpecOf(request, request.inputs[0].shape));
  return internal::MakeMaxPool(spec, request.inputs[0].layout);
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, SpecOf(request, request.inputs[kX].shape));
  return internal::MakeMaxPoolGrad(spec, request.inputs[kTaps].layout);
}

Result<Kernel> PickCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, SpecOf(request, request.inputs[0].shape));
  return internal::MakeMaxPoolPick(spec, request.inputs[1].layout);
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  std::vector<bool> seen(ctx.outputs[0].size());
  internal::VisitPoolTaps(spec, [&](int64_t x, int64_t y, int64_t tap) {
    const auto out = static_cast<size_t>(y);
    const double value = ctx.inputs[0][static_cast<size_t>(x)];
    if (!seen[out] || value > ctx.outputs[0][out]) {
      seen[out] = true;
      ctx.outputs[0][out] = value;
      ctx.outputs[1][out] = static_cast<double>(tap);
    }
  });
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[kX]));
  internal::VisitPoolTaps(spec, [&](int64_t x, int64_t y, int64_t tap) {
    const auto out = static_cast<size_t>(y);
    if (ctx.inputs[kTaps][out] == static_cast<double>(tap)) {
      ctx.outputs[0][static_cast<size_t>(x)] += ctx.inputs[kDy][out];
    }
  });
  return OkStatus();
}

Status PickReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  internal::VisitPoolTaps(spec, [&](int64_t x, int64_t y, int64_t tap) {
    const auto out = static_cast<size_t>(y);
    if (ctx.inputs[1][out] == static_cast<double>(tap)) {
      ctx.outputs[0][out] = ctx.inputs[0][static_cast<size_t>(x)];
    }
  });
  return OkStatus();
}

struct Case {
  std::string name;
  Shape x;
  Shape y;
  AttrMap attrs;
  DType dtype = DType::kFloat32;
};

AttrMap Attrs(std::vector<int64_t> ksize, std::vector<int64_t> strides, std::string padding,
              std::string format = "NHWC") {
  return {{"ksize", std::move(ksize)},
          {"strides", std::move(strides)},
          {"padding", std::move(padding)},
          {"data_format", std::move(format)}};
}

AttrMap ExplicitAttrs(std::vector<int64_t> paddings) {
  AttrMap attrs = Attrs({3, 3}, {2, 2}, "EXPLICIT");
  attrs.Set("explicit_paddings", std::move(paddings));
  return attrs;
}

std::vector<Case> Cases() {
  return {
      {"halves", {2, 6, 4, 3}, {2, 3, 2, 3}, Attrs({2, 2}, {2, 2}, "VALID")},
      {"whole_vectors", {2, 5, 6, 16}, {2, 3, 3, 16}, Attrs({3, 3}, {2, 2}, "SAME")},
      {"odd_lanes", {2, 4, 5, 11}, {2, 4, 5, 11}, Attrs({3, 3}, {1, 1}, "SAME")},
      {"gaps", {1, 8, 7, 3}, {1, 3, 3, 3}, Attrs({2, 2}, {3, 3}, "SAME")},
      {"explicit", {1, 5, 6, 2}, {1, 2, 4, 2}, ExplicitAttrs({0, 1, 2, 1})},
      {"nchw", {2, 3, 5, 6}, {2, 3, 3, 3}, Attrs({3, 2}, {2, 2}, "SAME", "NCHW")},
      {"bfloat16", {2, 4, 4, 8}, {2, 2, 2, 8}, Attrs({2, 2}, {2, 2}, "VALID"), DType::kBFloat16},
  };
}

// Taps that lie inside the input at every position.
SampleInput SomeTaps(const Case& c) {
  const std::vector<int64_t>& ksize = c.attrs.GetInts("ksize");
  const double middle = static_cast<double>(ksize[0] / 2 * ksize[1] + ksize[1] / 2);
  const bool inside = c.attrs.GetString("padding") == "VALID";
  return {.shape = c.y,
          .dtype = DType::kUInt8,
          .low = inside ? 0.0 : middle,
          .high = inside ? static_cast<double>(ksize[0] * ksize[1] - 1) : middle};
}

std::vector<Sample> MakeSamples(std::vector<SampleInput> (*inputs)(const Case&)) {
  std::vector<Sample> samples;
  for (const Case& c : Cases()) {
    samples.push_back({.name = c.name,
                       .inputs = inputs(c),
                       .attrs = c.attrs,
                       .tolerance = c.dtype == DType::kFloat32 ? 1e-5 : 2e-2});
  }
  return samples;
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples = MakeSamples(
      [](const Case& c) -> std::vector<SampleInput> { return {{.shape = c.x, .dtype = c.dtype}}; });
  samples.push_back({.name = "ties",
                     .inputs = {{.shape = {1, 4, 4, 1}, .values = std::vector<double>(16, 0.5)}},
                     .attrs = Attrs({3, 3}, {1, 1}, "SAME"),
                     .check_gradient = false});
  return samples;
}

std::vector<Sample> GradSamples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {{.shape = c.y, .dtype = c.dtype}, {.shape = c.x, .dtype = c.dtype}, SomeTaps(c)};
  });
}

std::vector<Sample> PickSamples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {{.shape = c.x, .dtype = c.dtype}, SomeTaps(c)};
  });
}

}  // namespace

OpDef MaxPoolDef() {
  return {.name = "MaxPool",
          .summary = "largest element of each window, and which it is",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = internal::PoolAttrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef MaxPoolGradDef() {
  return {.name = "MaxPoolGrad",
          .summary = "gradient of MaxPool by its input",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = internal::PoolAttrs(),
          .infer = GradInfer,
          .grad = GradGrad,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples,
          .shape_only_inputs = 1U << kX};
}

OpDef MaxPoolPickDef() {
  return {.name = "MaxPoolPick",
          .summary = "the elements that MaxPool chose, from another tensor",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = internal::PoolAttrs(),
          .infer = PickInfer,
          .grad = PickGrad,
          .cpu = PickCpu,
          .reference = PickReference,
          .samples = PickSamples};
}

Value MaxPool(BuildContext ctx, Value x, const PoolOptions& options) {
  return ctx.Add("MaxPool", {x},
                 {{"ksize", options.ksize},
                  {"strides", options.strides},
                  {"padding", options.padding},
                  {"explicit_paddings", options.explicit_paddings},
                  {"data_format", options.data_format}});
}

}  // namespace lockstep::op
