#include "lockstep/op/identity.h"

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/reference.h"
#include "lockstep/op/internal/view.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status SumInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  return Infer(ctx);
}

Status IdentityGrad(GradContext& ctx) {
  ctx.SetGrad(0, ctx.dy());
  return OkStatus();
}

Status StopGrad(GradContext&) {
  return OkStatus();
}

Status SumGrad(GradContext& ctx) {
  ctx.SetGrad(0, CrossReplicaSum(ctx, ctx.dy()));
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "image", .inputs = {{Shape{2, 3, 4, 5}}}},
          {.name = "scalar", .inputs = {{Shape{}}}}};
}

// Finite differences see the slope that StopGradient hides.
std::vector<Sample> StopSamples() {
  std::vector<Sample> samples = Samples();
  for (Sample& sample : samples) {
    sample.check_gradient = false;
  }
  return samples;
}

}  // namespace

OpDef IdentityDef() {
  return {.name = "Identity",
          .summary = "x",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = Infer,
          .grad = IdentityGrad,
          .cpu = SameShapeViewKernel,
          .reference = CopyReference,
          .samples = Samples};
}

OpDef StopGradientDef() {
  return {.name = "StopGradient",
          .summary = "x, through which no gradient passes",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = Infer,
          .grad = StopGrad,
          .cpu = SameShapeViewKernel,
          .reference = CopyReference,
          .samples = StopSamples};
}

OpDef CrossReplicaSumDef() {
  return {.name = "CrossReplicaSum",
          .summary = "the sum of x over all logical replicas",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = SumInfer,
          .grad = SumGrad,
          .cpu = SameShapeViewKernel,
          .reference = CopyReference,
          .samples = Samples};
}

Value Identity(BuildContext ctx, Value x, std::string_view name) {
  return ctx.Add("Identity", {x}, {}, name);
}

Value StopGradient(BuildContext ctx, Value x) {
  return ctx.Add("StopGradient", {x});
}

Value CrossReplicaSum(BuildContext ctx, Value x) {
  return ctx.Add("CrossReplicaSum", {x});
}

}  // namespace lockstep::op
