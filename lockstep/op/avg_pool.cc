#include <fmt/format.h>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/pool_kernel.h"
#include "lockstep/op/internal/pool_reference.h"
#include "lockstep/op/pool.h"

namespace lockstep::op {
namespace {

using internal::PoolSpec;

Result<PoolSpec> Resolve(const AttrMap& attrs, const Shape& x) {
  LS_ASSIGN_OR_RETURN(PoolSpec spec, internal::ResolvePool(attrs, x));
  spec.count_include_pad = attrs.GetBool("count_include_pad");
  return spec;
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.attrs(), ctx.shape(0)));
  ctx.AddOutput(ctx.dtype(0), spec.y);
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.attrs(), ctx.shape(1)));
  if (!ctx.shape(0).CompatibleWith(spec.y)) {
    return InvalidArgument(fmt::format("the output gradient has the shape {}, expected {}",
                                       ctx.shape(0).ToString(), spec.y.ToString()));
  }
  ctx.AddOutput(ctx.dtype(0), spec.x);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("AvgPoolGrad", {ctx.dy(), ctx.input(0)}, ctx.attrs()));
  return OkStatus();
}

Status GradGrad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("AvgPool", {ctx.dy()}, ctx.attrs()));
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
  return internal::MakeAvgPool(spec, request.inputs[0].layout);
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, SpecOf(request, request.inputs[1].shape));
  return internal::MakeAvgPoolGrad(spec, request.inputs[0].layout);
}

// For each output element the weight of the elements of its window.
std::vector<double> Weights(const PoolSpec& spec) {
  const auto size = static_cast<size_t>(spec.y.num_elements());
  std::vector<double> weights(size, static_cast<double>(spec.windows.h.size * spec.windows.w.size));
  if (!spec.count_include_pad) {
    std::fill(weights.begin(), weights.end(), 0.0);
    internal::VisitPoolTaps(
        spec, [&weights](int64_t, int64_t y, int64_t) { weights[static_cast<size_t>(y)] += 1.0; });
  }
  for (double& weight : weights) {
    weight = 1.0 / weight;
  }
  return weights;
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  const std::vector<double> weights = Weights(spec);
  internal::VisitPoolTaps(spec, [&](int64_t x, int64_t y, int64_t) {
    const auto out = static_cast<size_t>(y);
    ctx.outputs[0][out] += ctx.inputs[0][static_cast<size_t>(x)] * weights[out];
  });
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const PoolSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[1]));
  const std::vector<double> weights = Weights(spec);
  internal::VisitPoolTaps(spec, [&](int64_t x, int64_t y, int64_t) {
    const auto out = static_cast<size_t>(y);
    ctx.outputs[0][static_cast<size_t>(x)] += ctx.inputs[0][out] * weights[out];
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
              bool include_pad, std::string format = "NHWC") {
  return {{"ksize", std::move(ksize)},
          {"strides", std::move(strides)},
          {"padding", std::move(padding)},
          {"count_include_pad", include_pad},
          {"data_format", std::move(format)}};
}

AttrMap ExplicitAttrs(std::vector<int64_t> paddings, bool include_pad) {
  AttrMap attrs = Attrs({3, 3}, {2, 2}, "EXPLICIT", include_pad);
  attrs.Set("explicit_paddings", std::move(paddings));
  return attrs;
}

std::vector<Case> Cases() {
  return {
      {"halves", {2, 6, 4, 3}, {2, 3, 2, 3}, Attrs({2, 2}, {2, 2}, "VALID", false)},
      {"whole_vectors", {2, 5, 6, 16}, {2, 3, 3, 16}, Attrs({3, 3}, {2, 2}, "SAME", false)},
      {"padding_counts", {2, 5, 6, 11}, {2, 3, 3, 11}, Attrs({3, 3}, {2, 2}, "SAME", true)},
      {"explicit", {1, 5, 6, 2}, {1, 2, 4, 2}, ExplicitAttrs({0, 1, 2, 1}, false)},
      {"explicit_padding_counts", {1, 5, 6, 2}, {1, 2, 4, 2}, ExplicitAttrs({0, 1, 2, 1}, true)},
      {"nchw", {2, 3, 5, 6}, {2, 3, 3, 3}, Attrs({3, 2}, {2, 2}, "SAME", false, "NCHW")},
      {"bfloat16",
       {2, 4, 4, 8},
       {2, 2, 2, 8},
       Attrs({2, 2}, {2, 2}, "VALID", false),
       DType::kBFloat16},
  };
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
  return MakeSamples(
      [](const Case& c) -> std::vector<SampleInput> { return {{.shape = c.x, .dtype = c.dtype}}; });
}

std::vector<Sample> GradSamples() {
  return MakeSamples([](const Case& c) -> std::vector<SampleInput> {
    return {{.shape = c.y, .dtype = c.dtype}, {.shape = c.x, .dtype = c.dtype}};
  });
}

std::vector<AttrDef> AvgPoolAttrs() {
  return internal::PoolAttrs({{"count_include_pad", AttrType::kBool, false}});
}

}  // namespace

OpDef AvgPoolDef() {
  return {.name = "AvgPool",
          .summary = "mean of each window",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = AvgPoolAttrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef AvgPoolGradDef() {
  return {.name = "AvgPoolGrad",
          .summary = "gradient of AvgPool by its input",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = AvgPoolAttrs(),
          .infer = GradInfer,
          .grad = GradGrad,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples,
          .shape_only_inputs = 1U << 1};
}

Value AvgPool(BuildContext ctx, Value x, const PoolOptions& options, bool count_include_pad) {
  return ctx.Add("AvgPool", {x},
                 {{"ksize", options.ksize},
                  {"strides", options.strides},
                  {"padding", options.padding},
                  {"explicit_paddings", options.explicit_paddings},
                  {"count_include_pad", count_include_pad},
                  {"data_format", options.data_format}});
}

}  // namespace lockstep::op
