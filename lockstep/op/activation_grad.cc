#include "lockstep/op/activation_grad.h"

#include <array>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/compare.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/elementwise_def.h"
#include "lockstep/op/internal/vector_math.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/where.h"

namespace lockstep::op {
namespace {

constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

struct ReluGradOp {
  static float Fast(float dy, float y, float, float) { return y > 0.0F ? dy : 0.0F; }

  static double Exact(double dy, double y, double, double) { return y > 0.0 ? dy : 0.0; }
};

struct LeakyReluGradOp {
  static float Fast(float dy, float x, float alpha, float) {
    const float scaled = alpha * dy;
    return x > 0.0F ? dy : scaled;
  }

  static double Exact(double dy, double x, double alpha, double) {
    return x > 0.0 ? dy : alpha * dy;
  }
};

struct EluGradOp {
  static float Fast(float dy, float y, float alpha, float) {
    const float scaled = dy * (y + alpha);
    return y < 0.0F ? scaled : dy;
  }

  static double Exact(double dy, double y, double alpha, double) {
    return y < 0.0 ? dy * (y + alpha) : dy;
  }
};

struct GeluGradOp {
  static float Fast(float dy, float x, float, float) {
    const vec::Normal normal = vec::NormalAt(x);
    return dy * std::fma(x, normal.density, normal.cumulative);
  }

  static double Exact(double dy, double x, double approximate, double) {
    if (approximate != 0.0) {
      const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
      const double du = kGeluScale * (1.0 + 3.0 * kGeluCubic * x * x);
      return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du);
    }
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
    return dy * (0.5 * std::erfc(-x / std::sqrt(2.0)) + x * density);
  }
};

// With s = sigmoid(2 u): the slope is s + 2 x s (1 - s) u'.
struct ApproximateGeluGradOp {
  static float Fast(float dy, float x, float, float) {
    constexpr auto kScale = static_cast<float>(2.0 * kGeluScale);
    constexpr auto kCubic = static_cast<float>(kGeluCubic);
    const float square = x * x;
    const float s = vec::Sigmoid(kScale * std::fma(kCubic * square, x, x));
    const float twice_du = kScale * std::fma(3.0F * kCubic, square, 1.0F);
    return dy * std::fma(x * s * (1.0F - s), twice_du, s);
  }
};

struct SiluGradOp {
  static float Fast(float dy, float x, float, float) {
    const float s = vec::Sigmoid(x);
    return dy * s * std::fma(x, 1.0F - s, 1.0F);
  }

  static double Exact(double dy, double x, double, double) {
    const double s = 1.0 / (1.0 + std::exp(-x));
    return dy * s * (1.0 + x * (1.0 - s));
  }
};

struct SigmoidGradOp {
  static float Fast(float dy, float y, float, float) { return dy * y * (1.0F - y); }

  static double Exact(double dy, double y, double, double) { return dy * y * (1.0 - y); }
};

struct TanhGradOp {
  static float Fast(float dy, float y, float, float) { return dy * (1.0F - y * y); }

  static double Exact(double dy, double y, double, double) { return dy * (1.0 - y * y); }
};

void GeluGradStep(const float* dy, const float* x, float* dx, int64_t n, const StepParams& params) {
  if (params.a != 0.0) {
    PairStep<ApproximateGeluGradOp>(dy, x, dx, n, params);
  } else {
    PairStep<GeluGradOp>(dy, x, dx, n, params);
  }
}

Result<Kernel> GeluGradCpu(const KernelRequest& request) {
  return StepKernel(request, GeluGradStep);
}

constexpr std::array kSteps = {
    ElementwiseStep{"EluGrad", 2, PairStep<EluGradOp>},
    ElementwiseStep{"GeluGrad", 2, GeluGradStep},
    ElementwiseStep{"LeakyReluGrad", 2, PairStep<LeakyReluGradOp>},
    ElementwiseStep{"ReluGrad", 2, PairStep<ReluGradOp>},
    ElementwiseStep{"SigmoidGrad", 2, PairStep<SigmoidGradOp>},
    ElementwiseStep{"SiluGrad", 2, PairStep<SiluGradOp>},
    ElementwiseStep{"TanhGrad", 2, PairStep<TanhGradOp>},
};

// Below, `d` is the gradient that arrives, input 0 is dy and input 1 is x or y. Every op is linear
// in dy, so its gradient for dy is the op itself on d.

// d dy, what the slope's own derivative is multiplied with.
Value Product(GradContext& ctx) {
  return Mul(ctx, ctx.dy(), ctx.input(0));
}

Value Constant(GradContext& ctx, double value) {
  return ScalarLike(ctx, value, ctx.dy());
}

Status GradOfReluGrad(GradContext& ctx) {
  ctx.SetGrad(0, ReluGrad(ctx, ctx.dy(), ctx.input(1)));
  return OkStatus();
}

Status GradOfLeakyReluGrad(GradContext& ctx) {
  ctx.SetGrad(0, LeakyReluGrad(ctx, ctx.dy(), ctx.input(1), ctx.attrs().GetFloat("alpha")));
  return OkStatus();
}

Status GradOfEluGrad(GradContext& ctx) {
  const Value y = ctx.input(1);
  const Value zero = Constant(ctx, 0.0);
  ctx.SetGrad(0, EluGrad(ctx, ctx.dy(), y, ctx.attrs().GetFloat("alpha")));
  ctx.SetGrad(1, Where(ctx, Less(ctx, y, zero), Product(ctx), zero));
  return OkStatus();
}

// Exact: the slope's derivative is density(x) (2 - x^2). Approximate, with t = tanh(u):
// (1 - t^2) (u' - x t u'^2 + x u'' / 2).
Status GradOfGeluGrad(GradContext& ctx) {
  const Value x = ctx.input(1);
  const bool approximate = ctx.attrs().GetBool("approximate");
  const Value square = Square(ctx, x);
  ctx.SetGrad(0, GeluGrad(ctx, ctx.dy(), x, approximate));
  if (!approximate) {
    const Value density = Mul(ctx, Constant(ctx, 0.5 * M_2_SQRTPI * M_SQRT1_2),
                              Exp(ctx, Mul(ctx, Constant(ctx, -0.5), square)));
    const Value slope = Mul(ctx, density, Sub(ctx, Constant(ctx, 2.0), square));
    ctx.SetGrad(1, Mul(ctx, Product(ctx), slope));
    return OkStatus();
  }
  const auto scaled = [&](double factor, Value value) {
    return Mul(ctx, Constant(ctx, factor), value);
  };
  const auto one_plus = [&](Value value) { return Add(ctx, Constant(ctx, 1.0), value); };
  const Value t = Tanh(ctx, scaled(kGeluScale, Mul(ctx, x, one_plus(scaled(kGeluCubic, square)))));
  const Value du = scaled(kGeluScale, one_plus(scaled(3.0 * kGeluCubic, square)));
  const Value half_ddu_x = scaled(3.0 * kGeluScale * kGeluCubic, square);
  const Value curved = Mul(ctx, Mul(ctx, x, t), Square(ctx, du));
  const Value slope = Mul(ctx, Sub(ctx, Constant(ctx, 1.0), Square(ctx, t)),
                          Add(ctx, Sub(ctx, du, curved), half_ddu_x));
  ctx.SetGrad(1, Mul(ctx, Product(ctx), slope));
  return OkStatus();
}

// The slope's derivative is s (1 - s) (2 + x (1 - 2 s)).
Status GradOfSiluGrad(GradContext& ctx) {
  const Value x = ctx.input(1);
  const Value s = Sigmoid(ctx, x);
  const Value one_minus_2s = Sub(ctx, Constant(ctx, 1.0), Mul(ctx, Constant(ctx, 2.0), s));
  const Value inner = Add(ctx, Constant(ctx, 2.0), Mul(ctx, x, one_minus_2s));
  ctx.SetGrad(0, SiluGrad(ctx, ctx.dy(), x));
  ctx.SetGrad(1, Mul(ctx, SigmoidGrad(ctx, Product(ctx), s), inner));
  return OkStatus();
}

// The slope's derivative is 1 - 2 y.
Status GradOfSigmoidGrad(GradContext& ctx) {
  const Value y = ctx.input(1);
  const Value slope = Sub(ctx, Constant(ctx, 1.0), Mul(ctx, Constant(ctx, 2.0), y));
  ctx.SetGrad(0, SigmoidGrad(ctx, ctx.dy(), y));
  ctx.SetGrad(1, Mul(ctx, Product(ctx), slope));
  return OkStatus();
}

// The slope's derivative is -2 y.
Status GradOfTanhGrad(GradContext& ctx) {
  const Value y = ctx.input(1);
  ctx.SetGrad(0, TanhGrad(ctx, ctx.dy(), y));
  ctx.SetGrad(1, Mul(ctx, Product(ctx), Mul(ctx, Constant(ctx, -2.0), y)));
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "image",
           .inputs = {{Shape{2, 3, 4, 5}}, {Shape{2, 3, 4, 5}, DType::kFloat32, -3.0, 3.0}}},
          {.name = "wide",
           .inputs = {{Shape{1001}}, {Shape{1001}, DType::kFloat32, -60.0, 60.0}},
           .check_gradient = false}};
}

// y as the activation makes it.
std::vector<Sample> OutputSamples(double low, double high) {
  return {{.name = "image",
           .inputs = {{Shape{2, 3, 4, 5}}, {Shape{2, 3, 4, 5}, DType::kFloat32, low, high}}}};
}

std::vector<Sample> UnitSamples() {
  return OutputSamples(0.0, 1.0);
}

std::vector<Sample> SignedUnitSamples() {
  return OutputSamples(-1.0, 1.0);
}

std::vector<Sample> AlphaSamples() {
  std::vector<Sample> samples = SignedUnitSamples();
  samples[0].attrs = {{"alpha", 1.25}};
  return samples;
}

std::vector<Sample> GeluSamples() {
  std::vector<Sample> samples = Samples();
  for (const Sample& sample : Samples()) {
    samples.push_back(sample);
    samples.back().name += " approximate";
    samples.back().attrs = {{"approximate", true}};
  }
  return samples;
}

}  // namespace

std::span<const ElementwiseStep> ActivationGradSteps() {
  return kSteps;
}

OpDef ReluGradDef() {
  return PairDef<ReluGradOp>("ReluGrad", "dy where y > 0, otherwise 0", GradOfReluGrad, Samples);
}

OpDef LeakyReluGradDef() {
  return PairDef<LeakyReluGradOp>("LeakyReluGrad", "dy where x > 0, otherwise alpha dy",
                                  GradOfLeakyReluGrad, AlphaSamples,
                                  {{"alpha", AttrType::kFloat, 0.2}});
}

OpDef EluGradDef() {
  return PairDef<EluGradOp>("EluGrad", "dy where y >= 0, otherwise dy (y + alpha)", GradOfEluGrad,
                            AlphaSamples, {{"alpha", AttrType::kFloat, 1.0}});
}

OpDef GeluGradDef() {
  OpDef def = PairDef<GeluGradOp>("GeluGrad", "dy times the slope of Gelu at x", GradOfGeluGrad,
                                  GeluSamples, {{"approximate", AttrType::kBool, false}});
  def.cpu = GeluGradCpu;
  return def;
}

OpDef SiluGradDef() {
  return PairDef<SiluGradOp>("SiluGrad", "dy times the slope of Silu at x", GradOfSiluGrad,
                             Samples);
}

OpDef SigmoidGradDef() {
  return PairDef<SigmoidGradOp>("SigmoidGrad", "dy y (1 - y)", GradOfSigmoidGrad, UnitSamples);
}

OpDef TanhGradDef() {
  return PairDef<TanhGradOp>("TanhGrad", "dy (1 - y^2)", GradOfTanhGrad, SignedUnitSamples);
}

Value ReluGrad(BuildContext ctx, Value dy, Value y) {
  return ctx.Add("ReluGrad", {dy, y});
}

Value LeakyReluGrad(BuildContext ctx, Value dy, Value x, double alpha) {
  return ctx.Add("LeakyReluGrad", {dy, x}, {{"alpha", alpha}});
}

Value EluGrad(BuildContext ctx, Value dy, Value y, double alpha) {
  return ctx.Add("EluGrad", {dy, y}, {{"alpha", alpha}});
}

Value GeluGrad(BuildContext ctx, Value dy, Value x, bool approximate) {
  return ctx.Add("GeluGrad", {dy, x}, {{"approximate", approximate}});
}

Value SiluGrad(BuildContext ctx, Value dy, Value x) {
  return ctx.Add("SiluGrad", {dy, x});
}

Value SigmoidGrad(BuildContext ctx, Value dy, Value y) {
  return ctx.Add("SigmoidGrad", {dy, y});
}

Value TanhGrad(BuildContext ctx, Value dy, Value y) {
  return ctx.Add("TanhGrad", {dy, y});
}

}  // namespace lockstep::op
