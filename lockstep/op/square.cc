#include "lockstep/op/square.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status Reference(const ReferenceContext& ctx) {
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = ctx.inputs[0][i] * ctx.inputs[0][i];
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "x", .inputs = {{Shape{3, 4}}}}};
}

}  // namespace

OpDef SquareDef() {
  return {.name = "Square",
          .summary = "x * x",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = Infer,
          .reference = Reference,
          .samples = Samples};
}

Value Square(BuildContext ctx, Value x) {
  return ctx.Add("Square", {x});
}

}  // namespace lockstep::op
