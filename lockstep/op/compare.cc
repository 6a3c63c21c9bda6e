#include "lockstep/op/compare.h"

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/broadcast_kernel.h"
#include "lockstep/op/internal/reference.h"

namespace lockstep::op {
namespace {

struct EqualOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a == b;
  }
};

struct NotEqualOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a != b;
  }
};

struct LessOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a < b;
  }
};

struct LessEqualOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a <= b;
  }
};

struct GreaterOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a > b;
  }
};

struct GreaterEqualOp {
  template <class T>
  static bool Apply(T a, T b) {
    return a >= b;
  }
};

// On bytes of 0 and 1, without branches.
struct AndOp {
  static uint8_t Apply(uint8_t a, uint8_t b) { return a & b; }
};

struct OrOp {
  static uint8_t Apply(uint8_t a, uint8_t b) { return a | b; }
};

Status CompareInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(ctx.shape(0), ctx.shape(1)));
  ctx.AddOutput(DType::kBool, shape);
  return OkStatus();
}

Status LogicalInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectDType(0, DType::kBool));
  LS_TRY(ctx.ExpectDType(1, DType::kBool));
  return CompareInfer(ctx);
}

Status NotInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectDType(0, DType::kBool));
  ctx.AddOutput(DType::kBool, ctx.shape(0));
  return OkStatus();
}

template <class Op>
Result<Kernel> CompareCpu(const KernelRequest& request) {
  switch (request.inputs[0].dtype) {
    case DType::kFloat32:
      return BinaryKernel<float, bool, Op>(request);
    case DType::kInt32:
      return BinaryKernel<int32_t, bool, Op>(request);
    case DType::kInt64:
      return BinaryKernel<int64_t, bool, Op>(request);
    case DType::kUInt8:
    case DType::kBool:
      return BinaryKernel<uint8_t, bool, Op>(request);
    default:
      return Unimplemented("no kernel for this type");
  }
}

template <class Op>
Result<Kernel> LogicalCpu(const KernelRequest& request) {
  return BinaryKernel<uint8_t, uint8_t, Op>(request);
}

Result<Kernel> NotCpu(const KernelRequest& request) {
  Kernel kernel = ElementwiseKernel(request);
  const int64_t n = request.outputs[0].shape.num_elements();
  kernel.run = [n, threads = request.threads](const KernelArgs& args) {
    const uint8_t* x = args.in<uint8_t>(0);
    uint8_t* y = args.out<uint8_t>(0);
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        y[i] = x[i] ^ 1;
      }
    });
    return OkStatus();
  };
  return kernel;
}

template <class Op>
Status CompareReference(const ReferenceContext& ctx) {
  return BroadcastReference(ctx, [](double a, double b) { return Op::Apply(a, b) ? 1.0 : 0.0; });
}

Status AndReference(const ReferenceContext& ctx) {
  return BroadcastReference(ctx, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
}

Status OrReference(const ReferenceContext& ctx) {
  return BroadcastReference(ctx, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; });
}

Status NotReference(const ReferenceContext& ctx) {
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = ctx.inputs[0][i] == 0.0 ? 1.0 : 0.0;
  }
  return OkStatus();
}

std::vector<Sample> CompareSamples() {
  std::vector<Sample> samples = {
      {.name = "float", .inputs = {{Shape{2, 3, 4, 5}}, {Shape{2, 3, 4, 5}}}},
      {.name = "some equal",
       .inputs = {{.shape = Shape{4}, .values = {-1, 0, 2, 3}},
                  {.shape = Shape{4}, .values = {-1, 1, 2, -3}}}},
      {.name = "row", .inputs = {{Shape{3, 11}}, {Shape{11}}}},
      {.name = "scalar", .inputs = {{Shape{3, 11}}, {Shape{}}}}};
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8, DType::kBool}) {
    samples.push_back({.name = std::string(DTypeName(dtype)),
                       .inputs = {{Shape{3, 4}, dtype, 0, 5}, {Shape{4}, dtype, 0, 5}}});
  }
  return samples;
}

std::vector<Sample> LogicalSamples() {
  return {{.name = "all pairs",
           .inputs = {{Shape{4}, DType::kBool, 0, 1, {0, 0, 1, 1}},
                      {Shape{4}, DType::kBool, 0, 1, {0, 1, 0, 1}}}},
          {.name = "row", .inputs = {{Shape{3, 5}, DType::kBool}, {Shape{5}, DType::kBool}}}};
}

std::vector<Sample> NotSamples() {
  return {{.name = "matrix", .inputs = {{Shape{3, 5}, DType::kBool}}}};
}

template <class Op>
OpDef CompareDef(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = CompareInfer,
          .cpu = CompareCpu<Op>,
          .reference = CompareReference<Op>,
          .samples = CompareSamples};
}

template <class Op>
OpDef LogicalDef(std::string_view name, std::string_view summary, ReferenceFn reference) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = LogicalInfer,
          .cpu = LogicalCpu<Op>,
          .reference = reference,
          .samples = LogicalSamples};
}

}  // namespace

OpDef EqualDef() {
  return CompareDef<EqualOp>("Equal", "x == y");
}

OpDef NotEqualDef() {
  return CompareDef<NotEqualOp>("NotEqual", "x != y");
}

OpDef LessDef() {
  return CompareDef<LessOp>("Less", "x < y");
}

OpDef LessEqualDef() {
  return CompareDef<LessEqualOp>("LessEqual", "x <= y");
}

OpDef GreaterDef() {
  return CompareDef<GreaterOp>("Greater", "x > y");
}

OpDef GreaterEqualDef() {
  return CompareDef<GreaterEqualOp>("GreaterEqual", "x >= y");
}

OpDef LogicalAndDef() {
  return LogicalDef<AndOp>("LogicalAnd", "x and y", AndReference);
}

OpDef LogicalOrDef() {
  return LogicalDef<OrOp>("LogicalOr", "x or y", OrReference);
}

OpDef LogicalNotDef() {
  return {.name = "LogicalNot",
          .summary = "not x",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = NotInfer,
          .cpu = NotCpu,
          .reference = NotReference,
          .samples = NotSamples};
}

Value Equal(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Equal", {x, y});
}

Value NotEqual(BuildContext ctx, Value x, Value y) {
  return ctx.Add("NotEqual", {x, y});
}

Value Less(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Less", {x, y});
}

Value LessEqual(BuildContext ctx, Value x, Value y) {
  return ctx.Add("LessEqual", {x, y});
}

Value Greater(BuildContext ctx, Value x, Value y) {
  return ctx.Add("Greater", {x, y});
}

Value GreaterEqual(BuildContext ctx, Value x, Value y) {
  return ctx.Add("GreaterEqual", {x, y});
}

Value LogicalAnd(BuildContext ctx, Value x, Value y) {
  return ctx.Add("LogicalAnd", {x, y});
}

Value LogicalOr(BuildContext ctx, Value x, Value y) {
  return ctx.Add("LogicalOr", {x, y});
}

Value LogicalNot(BuildContext ctx, Value x) {
  return ctx.Add("LogicalNot", {x});
}

}  // namespace lockstep::op
