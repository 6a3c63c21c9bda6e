#include "lockstep/op/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/vector_math.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectSameShape(0, 1));
  Shape shape = ctx.shape(0);
  for (int i = 0; i < shape.rank(); ++i) {
    shape.set_dim(i, std::max(shape[i], ctx.shape(1)[i]));
  }
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const TensorDesc& logits = request.inputs[0];
  if (logits.dtype != DType::kFloat32) {
    return Unimplemented("SigmoidCrossEntropyWithLogits has a float32 kernel");
  }
  Kernel kernel;
  kernel.in_place = {0};
  kernel.run = [elements = logits.shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    const float* x = args.in<float>(0);
    const float* z = args.in<float>(1);
    float* loss = args.out<float>(0);
    ParallelFor(threads, elements, kElementGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float positive = x[i] > 0.0F ? x[i] : 0.0F;
        loss[i] = (positive - x[i] * z[i]) + vec::Log1PUnit(vec::Exp(-std::fabs(x[i])));
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    const double x = ctx.inputs[0][i];
    ctx.outputs[0][i] =
        std::max(x, 0.0) - x * ctx.inputs[1][i] + std::log1p(std::exp(-std::abs(x)));
  }
  return OkStatus();
}

// sigmoid(x) - z for the logits, -x for the labels.
Status Gradient(GradContext& ctx) {
  const Value x = ctx.input(0);
  ctx.SetGrad(0, Mul(ctx, ctx.dy(), Sub(ctx, Sigmoid(ctx, x), ctx.input(1))));
  ctx.SetGrad(1, Neg(ctx, Mul(ctx, ctx.dy(), x)));
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {
      {.name = "plain", .inputs = {{.shape = {4, 5}}, {.shape = {4, 5}, .low = 0.0, .high = 1.0}}},
      {.name = "large_logits",
       .inputs = {{.shape = {5}, .values = {100, -100, 0, 1000, -1000}},
                  {.shape = {5}, .values = {0, 1, 0.5, 1, 0}}}},
  };
}

// The mean over all dimensions but the first; [N] stays as it is.
Value MeanOfSamples(BuildContext ctx, Value x) {
  if (!x.valid()) {
    return {};
  }
  const int rank = x.shape().rank();
  if (rank == 0) {
    return ctx.Fail(
        InvalidArgument("a loss needs predictions of rank 1 or more, but got a scalar"));
  }
  std::vector<int64_t> axes;
  for (int i = 1; i < rank; ++i) {
    axes.push_back(i);
  }
  return axes.empty() ? x : ReduceMean(ctx, x, std::move(axes));
}

// Broadcasting would hide a mistake.
bool SameShapes(BuildContext ctx, Value prediction, Value target) {
  if (!prediction.valid() || !target.valid()) {
    return false;
  }
  if (!prediction.shape().CompatibleWith(target.shape())) {
    ctx.Fail(
        InvalidArgument(fmt::format("the prediction has the shape {}, but the target {}",
                                    prediction.shape().ToString(), target.shape().ToString())));
    return false;
  }
  return true;
}

}  // namespace

OpDef SigmoidCrossEntropyWithLogitsDef() {
  return {.name = "SigmoidCrossEntropyWithLogits",
          .summary = "cross entropy of sigmoid(logits) and probabilities, element by element",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value SigmoidCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels) {
  return ctx.Add("SigmoidCrossEntropyWithLogits", {logits, labels});
}

Value MeanSquaredError(BuildContext ctx, Value prediction, Value target) {
  if (!SameShapes(ctx, prediction, target)) {
    return {};
  }
  return MeanOfSamples(ctx, SquaredDifference(ctx, prediction, target));
}

// With c = clip(e, -delta, delta) both branches are c * (e - c / 2).
Value Huber(BuildContext ctx, Value prediction, Value target, double delta) {
  if (!(std::isfinite(delta) && delta > 0.0)) {
    return ctx.Fail(InvalidArgument(
        fmt::format("Huber's delta is {}, allowed are finite numbers above 0", delta)));
  }
  if (!SameShapes(ctx, prediction, target)) {
    return {};
  }
  const Value error = Sub(ctx, prediction, target);
  const Value clipped = Clip(ctx, error, -delta, delta);
  const Value half = Mul(ctx, clipped, ScalarLike(ctx, 0.5, prediction));
  return MeanOfSamples(ctx, Mul(ctx, clipped, Sub(ctx, error, half)));
}

}  // namespace lockstep::op
