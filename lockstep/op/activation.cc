#include "lockstep/op/activation.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/activation_grad.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/internal/elementwise_def.h"
#include "lockstep/op/internal/vector_math.h"

namespace lockstep::op {
namespace {

struct ReluOp {
  static float Fast(float x, float, float) { return x <= 0.0F ? 0.0F : x; }

  static double Exact(double x, double, double) { return x <= 0.0 ? 0.0 : x; }
};

struct LeakyReluOp {
  static float Fast(float x, float alpha, float) {
    const float scaled = alpha * x;
    return x > 0.0F ? x : scaled;
  }

  static double Exact(double x, double alpha, double) { return x > 0.0 ? x : alpha * x; }
};

struct EluOp {
  static float Fast(float x, float alpha, float) {
    const float negative = alpha * vec::ExpM1Negative(x < 0.0F ? x : 0.0F);
    return x < 0.0F ? negative : x;
  }

  static double Exact(double x, double alpha, double) {
    return x < 0.0 ? alpha * std::expm1(x) : x;
  }
};

struct GeluOp {
  static float Fast(float x, float, float) { return x * vec::NormalAt(x).cumulative; }

  static double Exact(double x, double approximate, double) {
    if (approximate != 0.0) {
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its precision for negative x.
struct ApproximateGeluOp {
  static float Fast(float x, float, float) {
    return x * vec::Sigmoid(1.59576912F * std::fma(0.044715F * x * x, x, x));
  }
};

struct SiluOp {
  static float Fast(float x, float, float) { return x * vec::Sigmoid(x); }

  static double Exact(double x, double, double) { return x / (1.0 + std::exp(-x)); }
};

struct SigmoidOp {
  static float Fast(float x, float, float) { return vec::Sigmoid(x); }

  static double Exact(double x, double, double) { return 1.0 / (1.0 + std::exp(-x)); }
};

struct TanhOp {
  static float Fast(float x, float, float) { return vec::Tanh(x); }

  static double Exact(double x, double, double) { return std::tanh(x); }
};

struct SoftplusOp {
  static float Fast(float x, float, float) { return vec::Softplus(x); }

  static double Exact(double x, double, double) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  }
};

void GeluStep(const float* x, const float*, float* y, int64_t n, const StepParams& params) {
  if (params.a != 0.0) {
    UnaryStep<ApproximateGeluOp>(x, nullptr, y, n, params);
  } else {
    UnaryStep<GeluOp>(x, nullptr, y, n, params);
  }
}

Result<Kernel> GeluCpu(const KernelRequest& request) {
  return StepKernel(request, GeluStep);
}

constexpr std::array kSteps = {
    ElementwiseStep{"Elu", 1, UnaryStep<EluOp>},
    ElementwiseStep{"Gelu", 1, GeluStep},
    ElementwiseStep{"LeakyRelu", 1, UnaryStep<LeakyReluOp>},
    ElementwiseStep{"Relu", 1, UnaryStep<ReluOp>},
    ElementwiseStep{"Sigmoid", 1, UnaryStep<SigmoidOp>},
    ElementwiseStep{"Silu", 1, UnaryStep<SiluOp>},
    ElementwiseStep{"Softplus", 1, UnaryStep<SoftplusOp>},
    ElementwiseStep{"Tanh", 1, UnaryStep<TanhOp>},
};

Status AlphaInfer(InferContext& ctx) {
  const double alpha = ctx.attrs().GetFloat("alpha");
  if (!std::isfinite(alpha)) {
    return InvalidArgument(fmt::format("the attribute alpha is {}, expected a number", alpha));
  }
  return FloatingInfer(ctx);
}

Status EluInfer(InferContext& ctx) {
  const double alpha = ctx.attrs().GetFloat("alpha");
  if (!(alpha > 0.0)) {
    return InvalidArgument(fmt::format("the attribute alpha is {}, expected more than 0", alpha));
  }
  return AlphaInfer(ctx);
}

Status GradOfRelu(GradContext& ctx) {
  ctx.SetGrad(0, ReluGrad(ctx, ctx.dy(), ctx.output()));
  return OkStatus();
}

Status GradOfLeakyRelu(GradContext& ctx) {
  ctx.SetGrad(0, LeakyReluGrad(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetFloat("alpha")));
  return OkStatus();
}

Status GradOfElu(GradContext& ctx) {
  ctx.SetGrad(0, EluGrad(ctx, ctx.dy(), ctx.output(), ctx.attrs().GetFloat("alpha")));
  return OkStatus();
}

Status GradOfGelu(GradContext& ctx) {
  ctx.SetGrad(0, GeluGrad(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetBool("approximate")));
  return OkStatus();
}

Status GradOfSilu(GradContext& ctx) {
  ctx.SetGrad(0, SiluGrad(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

Status GradOfSigmoid(GradContext& ctx) {
  ctx.SetGrad(0, SigmoidGrad(ctx, ctx.dy(), ctx.output()));
  return OkStatus();
}

Status GradOfTanh(GradContext& ctx) {
  ctx.SetGrad(0, TanhGrad(ctx, ctx.dy(), ctx.output()));
  return OkStatus();
}

Status GradOfSoftplus(GradContext& ctx) {
  ctx.SetGrad(0, Mul(ctx, ctx.dy(), Sigmoid(ctx, ctx.input(0))));
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "image", .inputs = {{Shape{2, 3, 4, 5}, DType::kFloat32, -4.0, 4.0}}},
          {.name = "scalar", .inputs = {{Shape{}}}},
          {.name = "wide",
           .inputs = {{Shape{1001}, DType::kFloat32, -120.0, 120.0}},
           .check_gradient = false},
          {.name = "two threads", .inputs = {{Shape{40001}}}, .check_gradient = false}};
}

std::vector<Sample> SamplesWith(const AttrMap& attrs) {
  std::vector<Sample> samples = Samples();
  samples.push_back(samples[0]);
  samples.back().name = "with attribute";
  samples.back().attrs = attrs;
  return samples;
}

std::vector<Sample> AlphaSamples() {
  return SamplesWith({{"alpha", 0.3}});
}

std::vector<Sample> GeluSamples() {
  return SamplesWith({{"approximate", true}});
}

}  // namespace

std::span<const ElementwiseStep> ActivationSteps() {
  return kSteps;
}

OpDef ReluDef() {
  return UnaryDef<ReluOp>("Relu", "max(x, 0)", GradOfRelu, Samples);
}

OpDef LeakyReluDef() {
  return UnaryDef<LeakyReluOp>("LeakyRelu", "x if x > 0, otherwise alpha x", GradOfLeakyRelu,
                               AlphaSamples, {{"alpha", AttrType::kFloat, 0.2}}, AlphaInfer);
}

OpDef EluDef() {
  return UnaryDef<EluOp>("Elu", "x if x >= 0, otherwise alpha (e^x - 1)", GradOfElu, AlphaSamples,
                         {{"alpha", AttrType::kFloat, 1.0}}, EluInfer);
}

OpDef GeluDef() {
  OpDef def = UnaryDef<GeluOp>("Gelu", "x times the normal distribution function of x", GradOfGelu,
                               GeluSamples, {{"approximate", AttrType::kBool, false}});
  def.cpu = GeluCpu;
  return def;
}

OpDef SiluDef() {
  return UnaryDef<SiluOp>("Silu", "x sigmoid(x)", GradOfSilu, Samples);
}

OpDef SigmoidDef() {
  return UnaryDef<SigmoidOp>("Sigmoid", "1 / (1 + e^-x)", GradOfSigmoid, Samples);
}

OpDef TanhDef() {
  return UnaryDef<TanhOp>("Tanh", "the hyperbolic tangent of x", GradOfTanh, Samples);
}

OpDef SoftplusDef() {
  return UnaryDef<SoftplusOp>("Softplus", "log(1 + e^x)", GradOfSoftplus, Samples);
}

Value Relu(BuildContext ctx, Value x) {
  return ctx.Add("Relu", {x});
}

Value LeakyRelu(BuildContext ctx, Value x, double alpha) {
  return ctx.Add("LeakyRelu", {x}, {{"alpha", alpha}});
}

Value Elu(BuildContext ctx, Value x, double alpha) {
  return ctx.Add("Elu", {x}, {{"alpha", alpha}});
}

Value Gelu(BuildContext ctx, Value x, bool approximate) {
  return ctx.Add("Gelu", {x}, {{"approximate", approximate}});
}

Value Silu(BuildContext ctx, Value x) {
  return ctx.Add("Silu", {x});
}

Value Sigmoid(BuildContext ctx, Value x) {
  return ctx.Add("Sigmoid", {x});
}

Value Tanh(BuildContext ctx, Value x) {
  return ctx.Add("Tanh", {x});
}

Value Softplus(BuildContext ctx, Value x) {
  return ctx.Add("Softplus", {x});
}

}  // namespace lockstep::op
