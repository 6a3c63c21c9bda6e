#include "lockstep/op/unary.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/elementwise_def.h"
#include "lockstep/op/internal/vector_math.h"

namespace lockstep::op {
namespace {

struct ExpOp {
  static float Fast(float x, float, float) { return vec::Exp(x); }

  static double Exact(double x, double, double) { return std::exp(x); }
};

struct LogOp {
  static float Fast(float x, float, float) { return vec::Log(x); }

  static double Exact(double x, double, double) { return std::log(x); }
};

struct SqrtOp {
  static float Fast(float x, float, float) { return std::sqrt(x); }

  static double Exact(double x, double, double) { return std::sqrt(x); }
};

struct RsqrtOp {
  static float Fast(float x, float, float) { return 1.0F / std::sqrt(x); }

  static double Exact(double x, double, double) { return 1.0 / std::sqrt(x); }
};

struct SquareOp {
  static float Fast(float x, float, float) { return x * x; }

  static double Exact(double x, double, double) { return x * x; }
};

struct AbsOp {
  static float Fast(float x, float, float) { return std::fabs(x); }

  static double Exact(double x, double, double) { return std::fabs(x); }
};

struct NegOp {
  static float Fast(float x, float, float) { return -x; }

  static double Exact(double x, double, double) { return -x; }
};

// A NaN stays.
struct SignOp {
  static float Fast(float x, float, float) {
    const float not_positive = x < 0.0F ? -1.0F : x;
    return x > 0.0F ? 1.0F : not_positive;
  }

  static double Exact(double x, double, double) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : x); }
};

struct FloorOp {
  static float Fast(float x, float, float) { return std::floor(x); }

  static double Exact(double x, double, double) { return std::floor(x); }
};

struct ReciprocalOp {
  static float Fast(float x, float, float) { return 1.0F / x; }

  static double Exact(double x, double, double) { return 1.0 / x; }
};

// A NaN stays.
struct ClipOp {
  static float Fast(float x, float low, float high) {
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
  }

  static double Exact(double x, double low, double high) {
    return x < low ? low : (x > high ? high : x);
  }
};

struct ClipGradOp {
  static float Fast(float dy, float x, float low, float high) {
    const bool inside = (x >= low) & (x <= high);
    return inside ? dy : 0.0F;
  }

  static double Exact(double dy, double x, double low, double high) {
    return x >= low && x <= high ? dy : 0.0;
  }
};

constexpr std::array kSteps = {
    ElementwiseStep{"Abs", 1, UnaryStep<AbsOp>},
    ElementwiseStep{"Clip", 1, UnaryStep<ClipOp>},
    ElementwiseStep{"ClipGrad", 2, PairStep<ClipGradOp>},
    ElementwiseStep{"Exp", 1, UnaryStep<ExpOp>},
    ElementwiseStep{"Floor", 1, UnaryStep<FloorOp>},
    ElementwiseStep{"Log", 1, UnaryStep<LogOp>},
    ElementwiseStep{"Neg", 1, UnaryStep<NegOp>},
    ElementwiseStep{"Reciprocal", 1, UnaryStep<ReciprocalOp>},
    ElementwiseStep{"Rsqrt", 1, UnaryStep<RsqrtOp>},
    ElementwiseStep{"Sign", 1, UnaryStep<SignOp>},
    ElementwiseStep{"Sqrt", 1, UnaryStep<SqrtOp>},
    ElementwiseStep{"Square", 1, UnaryStep<SquareOp>},
};

Status NumberInfer(InferContext& ctx) {
  if (ctx.dtype(0) == DType::kBool || ctx.dtype(0) == DType::kUInt8) {
    return InvalidArgument(fmt::format("input 0 is {}, expected a floating type, int32 or int64",
                                       DTypeName(ctx.dtype(0))));
  }
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status ClipInfer(InferContext& ctx) {
  const double low = ctx.attrs().GetFloat("low");
  const double high = ctx.attrs().GetFloat("high");
  if (!(low <= high)) {
    return InvalidArgument(
        fmt::format("the attributes low and high are {} and {}, expected low <= high", low, high));
  }
  return FloatingInfer(ctx);
}

Value Scaled(GradContext& ctx, double factor, Value x) {
  return Mul(ctx, ScalarLike(ctx, factor, x), x);
}

Status ExpGrad(GradContext& ctx) {
  ctx.SetGrad(0, Mul(ctx, ctx.dy(), ctx.output()));
  return OkStatus();
}

Status LogGrad(GradContext& ctx) {
  ctx.SetGrad(0, Div(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

Status SqrtGrad(GradContext& ctx) {
  ctx.SetGrad(0, Div(ctx, Scaled(ctx, 0.5, ctx.dy()), ctx.output()));
  return OkStatus();
}

// d x^(-1/2) = -y^3 / 2.
Status RsqrtGrad(GradContext& ctx) {
  const Value y = ctx.output();
  ctx.SetGrad(0, Mul(ctx, Scaled(ctx, -0.5, ctx.dy()), Mul(ctx, y, Square(ctx, y))));
  return OkStatus();
}

Status SquareGrad(GradContext& ctx) {
  ctx.SetGrad(0, Mul(ctx, Scaled(ctx, 2.0, ctx.dy()), ctx.input(0)));
  return OkStatus();
}

Status AbsGrad(GradContext& ctx) {
  ctx.SetGrad(0, Mul(ctx, ctx.dy(), Sign(ctx, ctx.input(0))));
  return OkStatus();
}

Status NegGrad(GradContext& ctx) {
  ctx.SetGrad(0, Neg(ctx, ctx.dy()));
  return OkStatus();
}

Status ZeroGrad(GradContext&) {
  return OkStatus();
}

Status ReciprocalGrad(GradContext& ctx) {
  ctx.SetGrad(0, Neg(ctx, Mul(ctx, ctx.dy(), Square(ctx, ctx.output()))));
  return OkStatus();
}

Value ClipGradLike(GradContext& ctx, Value dy, Value x) {
  return ClipGrad(ctx, dy, x, ctx.attrs().GetFloat("low"), ctx.attrs().GetFloat("high"));
}

Status GradOfClip(GradContext& ctx) {
  ctx.SetGrad(0, ClipGradLike(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

// Linear in dy, flat in x.
Status GradOfClipGrad(GradContext& ctx) {
  ctx.SetGrad(0, ClipGradLike(ctx, ctx.dy(), ctx.input(1)));
  return OkStatus();
}

std::vector<Sample> SamplesIn(double low, double high) {
  return {{.name = "image", .inputs = {{Shape{2, 3, 4, 5}, DType::kFloat32, low, high}}},
          {.name = "scalar", .inputs = {{Shape{}, DType::kFloat32, low, high}}},
          {.name = "two threads",
           .inputs = {{Shape{40001}, DType::kFloat32, low, high}},
           .check_gradient = false}};
}

std::vector<Sample> Samples() {
  return SamplesIn(-3.0, 3.0);
}

std::vector<Sample> PositiveSamples() {
  return SamplesIn(0.25, 9.0);
}

std::vector<Sample> NumberSamples() {
  std::vector<Sample> samples = Samples();
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    samples.push_back(
        {.name = std::string(DTypeName(dtype)), .inputs = {{Shape{7}, dtype, -3, 3}}});
  }
  return samples;
}

std::vector<Sample> ClipSamples() {
  std::vector<Sample> samples = Samples();
  for (Sample& sample : samples) {
    sample.attrs = {{"low", -1.0}, {"high", 1.5}};
  }
  samples[1].attrs = {{"low", -INFINITY}, {"high", 0.5}};
  return samples;
}

std::vector<Sample> ClipGradSamples() {
  return {{.name = "matrix",
           .inputs = {{Shape{5, 7}}, {Shape{5, 7}}},
           .attrs = {{"low", -1.0}, {"high", 1.5}}},
          {.name = "borders count",
           .inputs = {{.shape = Shape{4}, .values = {1, 2, 3, 4}},
                      {.shape = Shape{4}, .values = {-1.25, -1, 1.5, 1.75}}},
           .attrs = {{"low", -1.0}, {"high", 1.5}},
           .check_gradient = false}};
}

std::vector<AttrDef> ClipAttrs() {
  return {{"low", AttrType::kFloat}, {"high", AttrType::kFloat}};
}

}  // namespace

std::span<const ElementwiseStep> UnarySteps() {
  return kSteps;
}

OpDef ExpDef() {
  return UnaryDef<ExpOp>("Exp", "e^x", ExpGrad, Samples);
}

OpDef LogDef() {
  return UnaryDef<LogOp>("Log", "the natural logarithm of x", LogGrad, PositiveSamples);
}

OpDef SqrtDef() {
  return UnaryDef<SqrtOp>("Sqrt", "the square root of x", SqrtGrad, PositiveSamples);
}

OpDef RsqrtDef() {
  return UnaryDef<RsqrtOp>("Rsqrt", "1 / sqrt(x)", RsqrtGrad, PositiveSamples);
}

OpDef SquareDef() {
  return UnaryDef<SquareOp>("Square", "x * x", SquareGrad, NumberSamples, {}, NumberInfer);
}

OpDef AbsDef() {
  return UnaryDef<AbsOp>("Abs", "|x|", AbsGrad, NumberSamples, {}, NumberInfer);
}

OpDef NegDef() {
  return UnaryDef<NegOp>("Neg", "-x", NegGrad, NumberSamples, {}, NumberInfer);
}

OpDef SignDef() {
  return UnaryDef<SignOp>("Sign", "-1, 0 or 1", ZeroGrad, NumberSamples, {}, NumberInfer);
}

OpDef FloorDef() {
  return UnaryDef<FloorOp>("Floor", "x rounded down", ZeroGrad, Samples);
}

OpDef ReciprocalDef() {
  return UnaryDef<ReciprocalOp>("Reciprocal", "1 / x", ReciprocalGrad, PositiveSamples);
}

OpDef ClipDef() {
  return UnaryDef<ClipOp>("Clip", "x limited to [low, high]", GradOfClip, ClipSamples, ClipAttrs(),
                          ClipInfer);
}

OpDef ClipGradDef() {
  return PairDef<ClipGradOp>("ClipGrad", "dy where low <= x <= high, otherwise 0", GradOfClipGrad,
                             ClipGradSamples, ClipAttrs(), ClipInfer);
}

Value Exp(BuildContext ctx, Value x) {
  return ctx.Add("Exp", {x});
}

Value Log(BuildContext ctx, Value x) {
  return ctx.Add("Log", {x});
}

Value Sqrt(BuildContext ctx, Value x) {
  return ctx.Add("Sqrt", {x});
}

Value Rsqrt(BuildContext ctx, Value x) {
  return ctx.Add("Rsqrt", {x});
}

Value Square(BuildContext ctx, Value x) {
  return ctx.Add("Square", {x});
}

Value Abs(BuildContext ctx, Value x) {
  return ctx.Add("Abs", {x});
}

Value Neg(BuildContext ctx, Value x) {
  return ctx.Add("Neg", {x});
}

Value Sign(BuildContext ctx, Value x) {
  return ctx.Add("Sign", {x});
}

Value Floor(BuildContext ctx, Value x) {
  return ctx.Add("Floor", {x});
}

Value Reciprocal(BuildContext ctx, Value x) {
  return ctx.Add("Reciprocal", {x});
}

Value Clip(BuildContext ctx, Value x, double low, double high) {
  return ctx.Add("Clip", {x}, {{"low", low}, {"high", high}});
}

Value ClipGrad(BuildContext ctx, Value dy, Value x, double low, double high) {
  return ctx.Add("ClipGrad", {dy, x}, {{"low", low}, {"high", high}});
}

}  // namespace lockstep::op
