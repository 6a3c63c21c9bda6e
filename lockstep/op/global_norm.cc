#include "lockstep/op/global_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/block_sum.h"

namespace lockstep::op {
namespace {

Status NormInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
  }
  ctx.AddOutput(ctx.dtype(0), Shape());
  return OkStatus();
}

// x * dy / norm. The tiny summand makes 0 / 0 to 0.
Status NormGradient(GradContext& ctx) {
  const Value tiny = ScalarLike(ctx, 1e-30, ctx.output());
  const Value factor = Div(ctx, ctx.dy(), Maximum(ctx, ctx.output(), tiny));
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    ctx.SetGrad(i, Mul(ctx, ctx.input(i), factor));
  }
  return OkStatus();
}

Result<Kernel> NormCpu(const KernelRequest& request) {
  Kernel kernel;
  std::vector<int64_t> counts;
  for (const TensorDesc& input : request.inputs) {
    if (input.dtype != DType::kFloat32) {
      return Unimplemented("GlobalNorm has a float32 kernel");
    }
    // The order of the elements does not matter, as long as there are no others.
    kernel.input_layouts.push_back(input.layout.is_dense_for(input.shape) ? input.layout
                                                                          : Layout());
    counts.push_back(input.shape.num_elements());
    kernel.scratch_bytes = std::max(kernel.scratch_bytes, BlockSumScratch(counts.back()));
  }
  kernel.run = [counts = std::move(counts), threads = request.threads](const KernelArgs& args) {
    double sum = 0.0;
    for (size_t i = 0; i < counts.size(); ++i) {
      sum +=
          SumSquaresInBlocks(threads, args.in<float>(static_cast<int>(i)), counts[i], args.scratch);
    }
    args.out<float>(0)[0] = static_cast<float>(std::sqrt(sum));
    return OkStatus();
  };
  return kernel;
}

Status NormReference(const ReferenceContext& ctx) {
  double sum = 0.0;
  for (const std::vector<double>& input : ctx.inputs) {
    for (const double x : input) {
      sum += x * x;
    }
  }
  ctx.outputs[0][0] = std::sqrt(sum);
  return OkStatus();
}

std::vector<Sample> NormSamples() {
  return {
      {.name = "two", .inputs = {{.shape = {3, 4}}, {.shape = {5}}}},
      {.name = "one", .inputs = {{.shape = {2, 9, 3}}}},
      {.name = "zero", .inputs = {{.shape = {3}, .values = {0, 0, 0}}}, .check_gradient = false},
      {.name = "blocks", .inputs = {{.shape = {70000}}}, .check_gradient = false},
  };
}

}  // namespace

OpDef GlobalNormDef() {
  return {.name = "GlobalNorm",
          .summary = "Euclidean norm of all inputs together",
          .min_inputs = 1,
          .max_inputs = OpDef::kVariadic,
          .infer = NormInfer,
          .grad = NormGradient,
          .cpu = NormCpu,
          .reference = NormReference,
          .samples = NormSamples};
}

Value GlobalNorm(BuildContext ctx, std::vector<Value> inputs) {
  return ctx.Add("GlobalNorm", std::move(inputs));
}

Value ClipFactor(BuildContext ctx, Value norm, double clip_norm) {
  if (!(std::isfinite(clip_norm) && clip_norm > 0.0)) {
    return ctx.Fail(InvalidArgument(
        fmt::format("the norm to clip to is {}, allowed are finite numbers above 0", clip_norm)));
  }
  if (!norm.valid()) {
    return {};
  }
  const Value limit = ScalarLike(ctx, clip_norm, norm);
  const Value factor = Div(ctx, limit, Maximum(ctx, norm, limit));
  // norm - norm is 0, or NaN where the norm is infinite.
  return Add(ctx, factor, Sub(ctx, norm, norm));
}

}  // namespace lockstep::op
