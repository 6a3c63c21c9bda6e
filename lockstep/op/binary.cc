#include "lockstep/op/binary.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <type_traits>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/compare.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/broadcast_kernel.h"
#include "lockstep/op/internal/elementwise_step.h"
#include "lockstep/op/internal/reference.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/where.h"

namespace lockstep::op {
namespace {

// The type in which T is added and multiplied: unsigned for integers, so that they wrap around.
template <class T>
struct WrappingType {
  using Type = T;
};

template <>
struct WrappingType<int32_t> {
  using Type = uint32_t;
};

template <>
struct WrappingType<int64_t> {
  using Type = uint64_t;
};

template <>
struct WrappingType<uint8_t> {
  using Type = uint32_t;
};

template <class T>
using Wrapping = typename WrappingType<T>::Type;

struct AddOp {
  static constexpr bool kIntegers = true;

  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct SubOp {
  static constexpr bool kIntegers = true;

  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct MulOp {
  static constexpr bool kIntegers = true;

  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

struct MaximumOp {
  static constexpr bool kIntegers = true;

  // Not std::max: a NaN in a must win too.
  template <class T>
  static T Apply(T a, T b) {
    const bool takes_a = (a >= b) | (a != a);
    return takes_a ? a : b;
  }
};

struct MinimumOp {
  static constexpr bool kIntegers = true;

  template <class T>
  static T Apply(T a, T b) {
    const bool takes_a = (a <= b) | (a != a);
    return takes_a ? a : b;
  }
};

struct DivOp {
  static constexpr bool kIntegers = false;

  template <class T>
  static T Apply(T a, T b) {
    return a / b;
  }
};

struct SquaredDifferenceOp {
  static constexpr bool kIntegers = false;

  template <class T>
  static T Apply(T a, T b) {
    return (a - b) * (a - b);
  }
};

struct PowOp {
  static constexpr bool kIntegers = false;

  template <class T>
  static T Apply(T a, T b) {
    return std::pow(a, b);
  }
};

template <class Op>
Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameDType(0, 1));
  if (!Op::kIntegers) {
    LS_TRY(ctx.ExpectFloating(0));
  } else if (ctx.dtype(0) == DType::kBool) {
    return InvalidArgument("the inputs are bool, expected numbers");
  }
  LS_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(ctx.shape(0), ctx.shape(1)));
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

template <class Op>
Result<Kernel> Cpu(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kFloat32) {
    return BinaryKernel<float, float, Op>(request);
  }
  if constexpr (Op::kIntegers) {
    switch (dtype) {
      case DType::kInt32:
        return BinaryKernel<int32_t, int32_t, Op>(request);
      case DType::kInt64:
        return BinaryKernel<int64_t, int64_t, Op>(request);
      case DType::kUInt8:
        return BinaryKernel<uint8_t, uint8_t, Op>(request);
      default:
        break;
    }
  }
  return Unimplemented("no kernel for this type");
}

template <class Op>
Status Reference(const ReferenceContext& ctx) {
  return BroadcastReference(ctx, [](double a, double b) { return Op::Apply(a, b); });
}

template <class Op>
void Step(const float* a, const float* b, float* y, int64_t n, const StepParams&) {
  BinaryStrip<float, float, Op, false, false>(a, b, y, n);
}

constexpr std::array kSteps = {
    ElementwiseStep{"Add", 2, Step<AddOp>},
    ElementwiseStep{"Div", 2, Step<DivOp>},
    ElementwiseStep{"Maximum", 2, Step<MaximumOp>},
    ElementwiseStep{"Minimum", 2, Step<MinimumOp>},
    ElementwiseStep{"Mul", 2, Step<MulOp>},
    ElementwiseStep{"Pow", 2, Step<PowOp>},
    ElementwiseStep{"SquaredDifference", 2, Step<SquaredDifferenceOp>},
    ElementwiseStep{"Sub", 2, Step<SubOp>},
};

// Sets the gradient of input i, given in the shape of the output.
void SetSummed(GradContext& ctx, int i, Value gradient) {
  const Value inputs[] = {ctx.input(0), ctx.input(1)};
  ctx.SetGrad(i, SumToInput(ctx, gradient, ctx.input(i), inputs));
}

Status AddGrad(GradContext& ctx) {
  SetSummed(ctx, 0, ctx.dy());
  SetSummed(ctx, 1, ctx.dy());
  return OkStatus();
}

Status SubGrad(GradContext& ctx) {
  SetSummed(ctx, 0, ctx.dy());
  SetSummed(ctx, 1, Neg(ctx, ctx.dy()));
  return OkStatus();
}

Status MulGrad(GradContext& ctx) {
  SetSummed(ctx, 0, Mul(ctx, ctx.dy(), ctx.input(1)));
  SetSummed(ctx, 1, Mul(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

// d(x/y)/dy = -(x/y)/y.
Status DivGrad(GradContext& ctx) {
  const Value dx = Div(ctx, ctx.dy(), ctx.input(1));
  SetSummed(ctx, 0, dx);
  SetSummed(ctx, 1, Neg(ctx, Mul(ctx, dx, ctx.output())));
  return OkStatus();
}

Status SelectGrad(GradContext& ctx, Value takes_x) {
  const Value zero = ScalarLike(ctx, 0.0, ctx.dy());
  SetSummed(ctx, 0, Where(ctx, takes_x, ctx.dy(), zero));
  SetSummed(ctx, 1, Where(ctx, takes_x, zero, ctx.dy()));
  return OkStatus();
}

Status MaximumGrad(GradContext& ctx) {
  return SelectGrad(ctx, GreaterEqual(ctx, ctx.input(0), ctx.input(1)));
}

Status MinimumGrad(GradContext& ctx) {
  return SelectGrad(ctx, LessEqual(ctx, ctx.input(0), ctx.input(1)));
}

Status SquaredDifferenceGrad(GradContext& ctx) {
  const Value twice = Mul(ctx, ScalarLike(ctx, 2.0, ctx.dy()), ctx.dy());
  const Value dx = Mul(ctx, twice, Sub(ctx, ctx.input(0), ctx.input(1)));
  SetSummed(ctx, 0, dx);
  SetSummed(ctx, 1, Neg(ctx, dx));
  return OkStatus();
}

// d(x^y)/dx = y x^(y-1); d(x^y)/dy = x^y log(x) where x > 0, otherwise 0.
Status PowGrad(GradContext& ctx) {
  const Value x = ctx.input(0);
  const Value y = ctx.input(1);
  const Value one = ScalarLike(ctx, 1.0, x);
  const Value zero = ScalarLike(ctx, 0.0, x);
  const Value slope = Mul(ctx, y, Pow(ctx, x, Sub(ctx, y, one)));
  SetSummed(ctx, 0, Mul(ctx, ctx.dy(), slope));
  const Value positive = Greater(ctx, x, zero);
  const Value log_x = Where(ctx, positive, Log(ctx, Where(ctx, positive, x, one)), zero);
  SetSummed(ctx, 1, Mul(ctx, ctx.dy(), Mul(ctx, ctx.output(), log_x)));
  return OkStatus();
}

std::vector<Sample> FloatSamples(double low, double high) {
  const auto input = [&](const Shape& shape) {
    return SampleInput{.shape = shape, .low = low, .high = high};
  };
  return {{.name = "same", .inputs = {input({2, 3, 4, 5}), input({2, 3, 4, 5})}},
          {.name = "scalar right", .inputs = {input({3, 7}), input({})}},
          {.name = "scalar left", .inputs = {input({1}), input({3, 7})}},
          {.name = "row", .inputs = {input({5, 10}), input({10})}},
          {.name = "column", .inputs = {input({5, 1}), input({5, 9})}},
          {.name = "channel", .inputs = {input({2, 3, 2, 2}), input({3, 1, 1})}},
          {.name = "both", .inputs = {input({3, 1, 2}), input({4, 1})}},
          {.name = "two threads",
           .inputs = {input({190, 200}), input({190, 200})},
           .check_gradient = false}};
}

std::vector<Sample> Samples() {
  return FloatSamples(-2.0, 2.0);
}

std::vector<Sample> NumberSamples() {
  std::vector<Sample> samples = Samples();
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    const bool is_byte = dtype == DType::kUInt8;
    samples.push_back({.name = std::string(DTypeName(dtype)),
                       .inputs = {{Shape{3, 4}, dtype, is_byte ? 8.0 : -9.0, 15.0},
                                  {Shape{4}, dtype, is_byte ? 1.0 : -9.0, 7.0}}});
  }
  return samples;
}

// Away from a division by zero, and from powers that are not real.
std::vector<Sample> PositiveSamples() {
  return FloatSamples(0.5, 2.5);
}

template <class Op>
OpDef BinaryDef(std::string_view name, std::string_view summary, GradFn grad, SamplesFn samples) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = Infer<Op>,
          .grad = grad,
          .cpu = Cpu<Op>,
          .reference = Reference<Op>,
          .samples = samples,
          .elementwise = true};
}

}  // namespace

std::span<const ElementwiseStep> BinarySteps() {
  return kSteps;
}

OpDef AddDef() {
  return BinaryDef<AddOp>("Add", "x + y", AddGrad, NumberSamples);
}

OpDef SubDef() {
  return BinaryDef<SubOp>("Sub", "x - y", SubGrad, NumberSamples);
}

OpDef MulDef() {
  return BinaryDef<MulOp>("Mul", "x * y", MulGrad, NumberSamples);
}

OpDef DivDef() {
  return BinaryDef<DivOp>("Div", "x / y", DivGrad, PositiveSamples);
}

OpDef MaximumDef() {
  return BinaryDef<MaximumOp>("Maximum", "the larger of x and y", MaximumGrad, NumberSamples);
}

OpDef MinimumDef() {
  return BinaryDef<MinimumOp>("Minimum", "the smaller of x and y", MinimumGrad, NumberSamples);
}

OpDef SquaredDifferenceDef() {
  return BinaryDef<SquaredDifferenceOp>("SquaredDifference", "(x - y)^2", SquaredDifferenceGrad,
                                        Samples);
}

OpDef PowDef() {
  return BinaryDef<PowOp>("Pow", "x^y", PowGrad, PositiveSamples);
}

Value Add(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Add", {x, y});
}

Value Sub(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Sub", {x, y});
}

Value Mul(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Mul", {x, y});
}

Value Div(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Div", {x, y});
}

Value Maximum(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Maximum", {x, y});
}

Value Minimum(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Minimum", {x, y});
}

Value SquaredDifference(BuildContext ctx, Value x, Value y) {
  return ctx.Add("SquaredDifference", {x, y});
}

Value Pow(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Pow", {x, y});
}

}  // namespace lockstep::op
