#include "lockstep/op/batch_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/batch_norm_kernel.h"

namespace lockstep::op {
namespace {

using internal::BatchNormGradInputs;
using internal::BatchNormSpec;
using internal::ImageAxes;

constexpr BatchNormGradInputs kGradInputs = {};
constexpr BatchNormGradInputs kReluGradInputs = {
    .dy = 0, .x = 1, .scale = 2, .offset = 3, .mean = 4, .variance = 5};

// Also turns [N, C] into one image.
Result<BatchNormSpec> Resolve(const AttrMap& attrs, const Shape& x) {
  BatchNormSpec spec;
  LS_ASSIGN_OR_RETURN(spec.axes, internal::ParseDataFormat(attrs));
  const double epsilon = attrs.GetFloat("epsilon");
  if (!(epsilon > 0.0) || !std::isfinite(epsilon)) {
    return InvalidArgument(fmt::format("epsilon is {}, expected a positive number", epsilon));
  }
  if (x.rank() != 2 && x.rank() != 4) {
    return InvalidArgument(
        fmt::format("the input has the shape {}, expected rank 2 or 4", x.ToString()));
  }
  spec.epsilon = static_cast<float>(epsilon);
  spec.rank = x.rank();
  spec.x = x;
  if (x.rank() == 2) {
    spec.axes = internal::kNhwcAxes;
    spec.x = Shape{1, x[0], 1, x[1]};
  }
  return spec;
}

// Checks x and like-shaped inputs, and that the others are vectors with one element per channel.
Result<BatchNormSpec> CheckInputs(const InferContext& ctx, int x, bool has_dy) {
  LS_TRY(ctx.ExpectFloating(x));
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, Resolve(ctx.attrs(), ctx.shape(x)));
  if (has_dy) {
    LS_TRY(ctx.ExpectSameDType(0, x));
    LS_TRY(ctx.ExpectSameShape(0, x));
  }
  const Shape channels{spec.x[spec.axes.c]};
  for (int i = x + 1; i < ctx.num_inputs(); ++i) {
    if (ctx.dtype(i) != DType::kFloat32) {
      LS_TRY(ctx.ExpectSameDType(x, i));
    }
    LS_TRY(ctx.ExpectSameDType(x + 1, i));
    if (!ctx.shape(i).CompatibleWith(channels)) {
      return InvalidArgument(fmt::format("input {} has the shape {}, expected {}", i,
                                         ctx.shape(i).ToString(), channels.ToString()));
    }
  }
  return spec;
}

Status InferWith(InferContext& ctx, int x, bool has_dy, int parameter_outputs) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, CheckInputs(ctx, x, has_dy));
  ctx.AddOutput(ctx.dtype(x), ctx.shape(x));
  for (int i = 0; i < parameter_outputs; ++i) {
    ctx.AddOutput(ctx.dtype(x + 1), Shape{spec.x[spec.axes.c]});
  }
  return OkStatus();
}

Status Infer(InferContext& ctx) {
  return InferWith(ctx, 0, false, 2);
}

Status InferenceInfer(InferContext& ctx) {
  return InferWith(ctx, 0, false, 0);
}

Status GradInfer(InferContext& ctx) {
  return InferWith(ctx, kGradInputs.x, true, 2);
}

Status InferenceGradInfer(InferContext& ctx) {
  return InferWith(ctx, kGradInputs.x, true, 4);
}

Status Grad(GradContext& ctx) {
  if (ctx.dy(1).valid() || ctx.dy(2).valid()) {
    return Unimplemented("no gradient passes through the batch mean and variance");
  }
  const BuildContext build = ctx;
  Node* grad = build.AddNode("BatchNormGrad",
                             {ctx.dy(), ctx.input(0), ctx.input(1), ctx.output(1), ctx.output(2)},
                             ctx.attrs());
  if (grad != nullptr) {
    for (int i = 0; i < 3; ++i) {
      ctx.SetGrad(i, grad->output(i));
    }
  }
  return OkStatus();
}

Status InferenceGrad(GradContext& ctx) {
  const BuildContext build = ctx;
  Node* grad = build.AddNode("BatchNormInferenceGrad",
                             {ctx.dy(), ctx.input(0), ctx.input(1), ctx.input(3), ctx.input(4)},
                             ctx.attrs());
  if (grad != nullptr) {
    for (int i = 0; i < 5; ++i) {
      ctx.SetGrad(i, grad->output(i));
    }
  }
  return OkStatus();
}

Result<BatchNormSpec> SpecOf(const KernelRequest& request, int x, bool relu) {
  const TensorDesc& image = request.inputs[static_cast<size_t>(x)];
  LS_ASSIGN_OR_RETURN(BatchNormSpec spec, Resolve(request.node.attrs, image.shape));
  if (request.inputs.back().dtype != DType::kFloat32) {
    return Unimplemented("batch normalisation has kernels for float32 parameters only");
  }
  spec.dtype = image.dtype;
  spec.threads = request.threads;
  spec.relu = relu;
  return spec;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, 0, false));
  return internal::MakeBatchNorm(spec, request.inputs[0].layout);
}

Result<Kernel> ReluCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, 0, true));
  return internal::MakeBatchNorm(spec, request.inputs[0].layout);
}

Result<Kernel> InferenceCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, 0, false));
  return internal::MakeBatchNormInference(spec, request.inputs[0].layout);
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, kGradInputs.x, false));
  return internal::MakeBatchNormGrad(spec, kGradInputs, request.inputs[1].layout, false);
}

Result<Kernel> ReluGradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, kReluGradInputs.x, true));
  return internal::MakeBatchNormGrad(spec, kReluGradInputs, request.inputs[1].layout, false);
}

Result<Kernel> InferenceGradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, SpecOf(request, kGradInputs.x, false));
  return internal::MakeBatchNormGrad(spec, kGradInputs, request.inputs[1].layout, true);
}

// Channel of each element of a row-major tensor.
class ChannelOf {
 public:
  explicit ChannelOf(const BatchNormSpec& spec)
      : channels_(static_cast<size_t>(spec.x[spec.axes.c])),
        inner_(spec.axes.c == 3 ? 1
                                : static_cast<size_t>(spec.x[spec.axes.h] * spec.x[spec.axes.w])) {}

  size_t operator()(size_t i) const { return i / inner_ % channels_; }

  size_t channels() const { return channels_; }

 private:
  size_t channels_;
  size_t inner_;
};

struct Moments {
  std::vector<double> mean;
  std::vector<double> variance;
};

Moments MomentsOf(const std::vector<double>& x, const ChannelOf& channel) {
  Moments m{std::vector<double>(channel.channels()), std::vector<double>(channel.channels())};
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(channel.channels(), 1));
  for (size_t i = 0; i < x.size(); ++i) {
    m.mean[channel(i)] += x[i] / count;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - m.mean[channel(i)];
    m.variance[channel(i)] += d * d / count;
  }
  return m;
}

void ReferenceNormalize(const ReferenceContext& ctx, const ChannelOf& channel,
                        const std::vector<double>& mean, const std::vector<double>& variance,
                        bool relu) {
  const double epsilon = ctx.node.attrs.GetFloat("epsilon");
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    const size_t c = channel(i);
    const double y =
        (ctx.inputs[0][i] - mean[c]) / std::sqrt(variance[c] + epsilon) * ctx.inputs[1][c] +
        ctx.inputs[2][c];
    ctx.outputs[0][i] = relu && y < 0.0 ? 0.0 : y;
  }
}

template <bool kRelu>
Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  const ChannelOf channel(spec);
  const Moments m = MomentsOf(ctx.inputs[0], channel);
  ReferenceNormalize(ctx, channel, m.mean, m.variance, kRelu);
  ctx.outputs[1] = m.mean;
  ctx.outputs[2] = m.variance;
  return OkStatus();
}

Status InferenceReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  ReferenceNormalize(ctx, ChannelOf(spec), ctx.inputs[3], ctx.inputs[4], false);
  return OkStatus();
}

// The textbook form, with the statistics written as functions of x or as constants.
Status ReferenceGrad(const ReferenceContext& ctx, const BatchNormGradInputs& in, bool relu,
                     bool fixed_statistics) {
  LS_ASSIGN_OR_RETURN(const BatchNormSpec spec, Resolve(ctx.node.attrs, ctx.input_shapes[1]));
  const ChannelOf channel(spec);
  const auto input = [&ctx](int i) -> const std::vector<double>& {
    return ctx.inputs[static_cast<size_t>(i)];
  };
  const std::vector<double>& x = input(in.x);
  const double epsilon = ctx.node.attrs.GetFloat("epsilon");
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(channel.channels(), 1));
  std::vector<double> dy = input(in.dy);
  std::vector<double> normal(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = channel(i);
    normal[i] = (x[i] - input(in.mean)[c]) / std::sqrt(input(in.variance)[c] + epsilon);
    if (relu && normal[i] * input(in.scale)[c] + input(in.offset)[c] <= 0.0) {
      dy[i] = 0.0;
    }
    ctx.outputs[1][c] += dy[i] * normal[i];
    ctx.outputs[2][c] += dy[i];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = channel(i);
    const double slope = input(in.scale)[c] / std::sqrt(input(in.variance)[c] + epsilon);
    const double through_statistics =
        fixed_statistics ? 0.0 : (ctx.outputs[2][c] + normal[i] * ctx.outputs[1][c]) / count;
    ctx.outputs[0][i] = slope * (dy[i] - through_statistics);
  }
  for (size_t c = 0; fixed_statistics && c < channel.channels(); ++c) {
    const double variance = input(in.variance)[c] + epsilon;
    ctx.outputs[3][c] = -input(in.scale)[c] / std::sqrt(variance) * ctx.outputs[2][c];
    ctx.outputs[4][c] = -0.5 * input(in.scale)[c] / variance * ctx.outputs[1][c];
  }
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  return ReferenceGrad(ctx, kGradInputs, false, false);
}

Status ReluGradReference(const ReferenceContext& ctx) {
  return ReferenceGrad(ctx, kReluGradInputs, true, false);
}

Status InferenceGradReference(const ReferenceContext& ctx) {
  return ReferenceGrad(ctx, kGradInputs, false, true);
}

struct Case {
  std::string name;
  Shape x;
  int64_t channels;
  std::string format = "NHWC";
  double low = -2.0;
  double high = 2.0;
  DType dtype = DType::kFloat32;
};

std::vector<Case> Cases() {
  return {{"nhwc", {2, 3, 2, 5}, 5},
          {"whole_vectors", {3, 2, 3, 16}, 16},
          {"odd_lanes", {2, 2, 2, 11}, 11},
          {"nchw", {2, 4, 3, 2}, 4, "NCHW"},
          {"nchw_whole_vectors", {2, 8, 3, 2}, 8, "NCHW"},
          {"dense", {6, 9}, 9},
          {"one_element", {1, 1, 1, 3}, 3},
          {"far_from_zero", {4, 2, 2, 8}, 8, "NHWC", 1000.0, 1004.0},
          {"bfloat16", {3, 2, 2, 8}, 8, "NHWC", -2.0, 2.0, DType::kBFloat16}};
}

std::vector<Sample> MakeSamples(std::vector<SampleInput> (*inputs)(const Case&, SampleInput x,
                                                                   SampleInput vector,
                                                                   SampleInput variance)) {
  std::vector<Sample> samples;
  for (const Case& c : Cases()) {
    const SampleInput x{.shape = c.x, .dtype = c.dtype, .low = c.low, .high = c.high};
    const SampleInput vector{.shape = {c.channels}, .low = 0.5, .high = 1.5};
    const bool far = c.low > 100.0;
    samples.push_back({.name = c.name,
                       .inputs = inputs(c, x, vector, vector),
                       .attrs = {{"data_format", c.format}},
                       .tolerance = c.dtype == DType::kBFloat16 ? 2e-2
                                    : far                       ? 1e-3
                                                                : 1e-5,
                       // One element has no spread to differentiate, and far from zero the
                       // differences lose their digits.
                       .check_gradient = c.name != "one_element" && !far});
  }
  return samples;
}

std::vector<Sample> Samples() {
  return MakeSamples([](const Case&, SampleInput x, SampleInput vector, SampleInput) {
    return std::vector{x, vector, vector};
  });
}

std::vector<Sample> InferenceSamples() {
  return MakeSamples([](const Case&, SampleInput x, SampleInput vector, SampleInput variance) {
    SampleInput mean = vector;
    mean.low += x.low > 100.0 ? x.low : 0.0;
    mean.high += x.low > 100.0 ? x.low : 0.0;
    return std::vector{x, vector, vector, mean, variance};
  });
}

std::vector<SampleInput> GradSampleInputs(const Case& c, const SampleInput& x,
                                          const SampleInput& vector, const SampleInput& variance) {
  SampleInput mean = vector;
  mean.low += c.low > 100.0 ? c.low : 0.0;
  mean.high += c.low > 100.0 ? c.low : 0.0;
  return {{.shape = x.shape, .dtype = x.dtype}, x, vector, mean, variance};
}

std::vector<Sample> GradSamples() {
  return MakeSamples([](const Case& c, SampleInput x, SampleInput vector, SampleInput variance) {
    return GradSampleInputs(c, x, vector, variance);
  });
}

std::vector<Sample> ReluGradSamples() {
  return MakeSamples([](const Case& c, SampleInput x, SampleInput vector, SampleInput variance) {
    std::vector<SampleInput> inputs = GradSampleInputs(c, x, vector, variance);
    inputs.insert(inputs.begin() + kReluGradInputs.offset, vector);
    return inputs;
  });
}

std::vector<AttrDef> Attrs() {
  return {{"epsilon", AttrType::kFloat, 1e-3},
          {"data_format", AttrType::kString, std::string("NHWC")}};
}

}  // namespace

OpDef BatchNormDef() {
  return {.name = "BatchNorm",
          .summary = "normalisation by the batch's statistics",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference<false>,
          .samples = Samples};
}

OpDef BatchNormGradDef() {
  return {.name = "BatchNormGrad",
          .summary = "gradients of BatchNorm",
          .min_inputs = 5,
          .max_inputs = 5,
          .attrs = Attrs(),
          .infer = GradInfer,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

OpDef BatchNormInferenceDef() {
  return {.name = "BatchNormInference",
          .summary = "normalisation by given statistics",
          .min_inputs = 5,
          .max_inputs = 5,
          .attrs = Attrs(),
          .infer = InferenceInfer,
          .grad = InferenceGrad,
          .cpu = InferenceCpu,
          .reference = InferenceReference,
          .samples = InferenceSamples};
}

OpDef BatchNormInferenceGradDef() {
  return {.name = "BatchNormInferenceGrad",
          .summary = "gradients of BatchNormInference",
          .min_inputs = 5,
          .max_inputs = 5,
          .attrs = Attrs(),
          .infer = InferenceGradInfer,
          .cpu = InferenceGradCpu,
          .reference = InferenceGradReference,
          .samples = GradSamples};
}

OpDef FusedBatchNormReluDef() {
  return {.name = "FusedBatchNormRelu",
          .summary = "relu(BatchNorm)",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = Infer,
          .cpu = ReluCpu,
          .reference = Reference<true>,
          .samples = Samples,
          .internal = true};
}

OpDef FusedBatchNormReluGradDef() {
  return {.name = "FusedBatchNormReluGrad",
          .summary = "gradients of FusedBatchNormRelu",
          .min_inputs = 6,
          .max_inputs = 6,
          .attrs = Attrs(),
          .infer = GradInfer,
          .cpu = ReluGradCpu,
          .reference = ReluGradReference,
          .samples = ReluGradSamples,
          .internal = true};
}

BatchNormResult BatchNorm(BuildContext ctx, Value x, Value scale, Value offset, double epsilon,
                          std::string_view data_format) {
  Node* node = ctx.AddNode("BatchNorm", {x, scale, offset},
                           {{"epsilon", epsilon}, {"data_format", std::string(data_format)}});
  return node == nullptr ? BatchNormResult{}
                         : BatchNormResult{node->output(0), node->output(1), node->output(2)};
}

Value BatchNormInference(BuildContext ctx, Value x, Value scale, Value offset, Value mean,
                         Value variance, double epsilon, std::string_view data_format) {
  return ctx.Add("BatchNormInference", {x, scale, offset, mean, variance},
                 {{"epsilon", epsilon}, {"data_format", std::string(data_format)}});
}

}  // namespace lockstep::op
