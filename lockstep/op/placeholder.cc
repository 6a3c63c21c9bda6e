#include "lockstep/op/placeholder.h"

#include "lockstep/graph/op_def.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext& ctx) {
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

}  // namespace

OpDef PlaceholderDef() {
  return {.name = "Placeholder",
          .summary = "a value that is fed",
          .attrs = {{"dtype", AttrType::kDType}, {"shape", AttrType::kShape}},
          .infer = Infer,
          .stateful = true};
}

Value Placeholder(BuildContext ctx, DType dtype, const Shape& shape, std::string_view name) {
  return ctx.Add("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name);
}

}  // namespace lockstep::op
