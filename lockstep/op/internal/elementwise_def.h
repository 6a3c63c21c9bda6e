// Definitions of element-wise ops without broadcasting, made from a struct with two functions:
//
//   struct ExpOp {
//     static float Fast(float x, float a, float b);       the kernel's; a, b: StepParams
//     static double Exact(double x, double a, double b);  the reference
//   };
//
// Ops of two inputs (the gradients of activations) have one more argument.
#pragma once

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/broadcast_kernel.h"
#include "lockstep/op/internal/elementwise_step.h"

namespace lockstep::op {

// Runs a step over inputs of the output's shape, in any dense layout. float32 only.
inline Result<Kernel> StepKernel(const KernelRequest& request, StepFn step) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("no kernel for this type");
  }
  Kernel kernel = ElementwiseKernel(request);
  const StepParams params = ReadStepParams(*request.node.op, request.node.attrs);
  const int64_t n = request.outputs[0].shape.num_elements();
  const size_t second = request.inputs.size() - 1;
  kernel.run = [=, threads = request.threads](const KernelArgs& args) {
    const float* a = args.in<float>(0);
    const float* b = args.in<float>(static_cast<int>(second));
    float* y = args.out<float>(0);
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
      step(a + begin, b + begin, y + begin, end - begin, params);
    });
    return OkStatus();
  };
  return kernel;
}

template <class Op>
void UnaryStep(const float* x, const float*, float* y, int64_t n, const StepParams& params) {
  const auto a = static_cast<float>(params.a);
  const auto b = static_cast<float>(params.b);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    y[i] = Op::Fast(x[i], a, b);
  }
}

template <class Op>
void PairStep(const float* u, const float* v, float* y, int64_t n, const StepParams& params) {
  const auto a = static_cast<float>(params.a);
  const auto b = static_cast<float>(params.b);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    y[i] = Op::Fast(u[i], v[i], a, b);
  }
}

inline Status FloatingInfer(InferContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectFloating(i));
    LS_TRY(ctx.ExpectSameDType(0, i));
    LS_TRY(ctx.ExpectSameShape(0, i));
  }
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

template <class Op>
Result<Kernel> UnaryCpu(const KernelRequest& request) {
  return StepKernel(request, UnaryStep<Op>);
}

template <class Op>
Result<Kernel> PairCpu(const KernelRequest& request) {
  return StepKernel(request, PairStep<Op>);
}

template <class Op>
Status UnaryReference(const ReferenceContext& ctx) {
  const StepParams params = ReadStepParams(*ctx.node.op, ctx.node.attrs);
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = Op::Exact(ctx.inputs[0][i], params.a, params.b);
  }
  return OkStatus();
}

template <class Op>
Status PairReference(const ReferenceContext& ctx) {
  const StepParams params = ReadStepParams(*ctx.node.op, ctx.node.attrs);
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = Op::Exact(ctx.inputs[0][i], ctx.inputs[1][i], params.a, params.b);
  }
  return OkStatus();
}

template <class Op>
OpDef UnaryDef(std::string_view name, std::string_view summary, GradFn grad, SamplesFn samples,
               std::vector<AttrDef> attrs = {}, InferFn infer = FloatingInfer) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = std::move(attrs),
          .infer = infer,
          .grad = grad,
          .cpu = UnaryCpu<Op>,
          .reference = UnaryReference<Op>,
          .samples = samples,
          .elementwise = true};
}

template <class Op>
OpDef PairDef(std::string_view name, std::string_view summary, GradFn grad, SamplesFn samples,
              std::vector<AttrDef> attrs = {}, InferFn infer = FloatingInfer) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = std::move(attrs),
          .infer = infer,
          .grad = grad,
          .cpu = PairCpu<Op>,
          .reference = PairReference<Op>,
          .samples = samples,
          .elementwise = true};
}

}  // namespace lockstep::op
