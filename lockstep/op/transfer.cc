#include "lockstep/op/transfer.h"

#include <fmt/format.h>

#include "lockstep/graph/device_name.h"
#include "lockstep/graph/op_def.h"

namespace lockstep::op {
namespace {

Status CheckTransfer(const AttrMap& attrs, std::string_view device_attr) {
  if (attrs.GetInt("transfer") < 0) {
    return InvalidArgument(fmt::format("the attribute 'transfer' is {}, allowed are 0 and more",
                                       attrs.GetInt("transfer")));
  }
  const std::string& device = attrs.GetString(device_attr);
  const Status status = DeviceName::Parse(device).status();
  if (device.empty() || !status.ok()) {
    return InvalidArgument(fmt::format("the attribute '{}' is no device: {}", device_attr,
                                       device.empty() ? "it is empty" : status.message()));
  }
  return OkStatus();
}

Status InferSend(InferContext& ctx) {
  return CheckTransfer(ctx.attrs(), "destination");
}

Status InferKnown(InferContext& ctx) {
  const Shape& shape = ctx.attrs().Get<Shape>("shape");
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("the attribute 'shape' is {}, allowed are known dimensions", shape.ToString()));
  }
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), shape);
  return OkStatus();
}

Status InferRecv(InferContext& ctx) {
  LS_TRY(CheckTransfer(ctx.attrs(), "source"));
  return InferKnown(ctx);
}

}  // namespace

OpDef SendDef() {
  return {.name = kSend,
          .summary = "gives a value to another device",
          .max_inputs = 1,
          .attrs = {{"transfer", AttrType::kInt}, {"destination", AttrType::kString}},
          .infer = InferSend,
          .stateful = true,
          .internal = true};
}

OpDef RecvDef() {
  return {.name = kRecv,
          .summary = "a value from another device",
          .attrs = {{"transfer", AttrType::kInt},
                    {"source", AttrType::kString},
                    {"dtype", AttrType::kDType},
                    {"shape", AttrType::kShape}},
          .infer = InferRecv,
          .stateful = true,
          .internal = true};
}

OpDef ShapeOnlyDef() {
  return {.name = kShapeOnly,
          .summary = "a value of which only the shape is used",
          .attrs = {{"dtype", AttrType::kDType}, {"shape", AttrType::kShape}},
          .infer = InferKnown,
          .stateful = true,
          .internal = true};
}

}  // namespace lockstep::op
