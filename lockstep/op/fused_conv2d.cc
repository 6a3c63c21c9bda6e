// FusedConv2D (made by passes): activation(Conv2D(x, filter) + bias[O] [+ sum]), activation "none"
// or "relu", the sum shaped like the result.
#include <fmt/format.h>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/conv_kernel.h"
#include "lockstep/op/internal/conv_spec.h"

namespace lockstep::op {
namespace {

using internal::ConvSpec;

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
  }
  LS_ASSIGN_OR_RETURN(const ConvSpec spec,
                      internal::ResolveConv(ctx.attrs(), ctx.shape(0), ctx.shape(1)));
  if (ctx.shape(2) != Shape{spec.out_channels()}) {
    return InvalidArgument(fmt::format("the bias has the shape {}, expected [{}]",
                                       ctx.shape(2).ToString(), spec.out_channels()));
  }
  if (ctx.num_inputs() == 4 && !ctx.shape(3).CompatibleWith(spec.y)) {
    return InvalidArgument(fmt::format("the input to add has the shape {}, expected {}",
                                       ctx.shape(3).ToString(), spec.y.ToString()));
  }
  const std::string& activation = ctx.attrs().GetString("activation");
  if (activation != "none" && activation != "relu") {
    return InvalidArgument(fmt::format("activation is '{}', allowed: none, relu", activation));
  }
  ctx.AddOutput(ctx.dtype(0), spec.y);
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(
      ConvSpec spec,
      internal::ResolveConv(request.node.attrs, request.inputs[0].shape, request.inputs[1].shape));
  spec.dtype = request.inputs[0].dtype;
  spec.threads = request.threads;
  return internal::MakeConvForward(spec,
                                   {.bias = true,
                                    .sum = request.inputs.size() == 4,
                                    .relu = request.node.attrs.GetString("activation") == "relu"});
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(
      const ConvSpec spec,
      internal::ResolveConv(ctx.node.attrs, ctx.input_shapes[0], ctx.input_shapes[1]));
  std::vector<double>& y = ctx.outputs[0];
  internal::VisitConvProducts(spec, [&](int64_t x, int64_t filter, int64_t out) {
    y[static_cast<size_t>(out)] +=
        ctx.inputs[0][static_cast<size_t>(x)] * ctx.inputs[1][static_cast<size_t>(filter)];
  });
  const bool relu = ctx.node.attrs.GetString("activation") == "relu";
  const size_t channels = ctx.inputs[2].size();
  const auto pixels = static_cast<size_t>(spec.windows.h.output * spec.windows.w.output);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += ctx.inputs[2][spec.axes.c == 3 ? i % channels : i / pixels % channels];
    y[i] += ctx.inputs.size() == 4 ? ctx.inputs[3][i] : 0.0;
    y[i] = relu && y[i] < 0.0 ? 0.0 : y[i];
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  const AttrMap relu = {{"padding", std::string("SAME")}, {"activation", std::string("relu")}};
  AttrMap nchw = relu;
  nchw.Set("data_format", std::string("NCHW"));
  AttrMap groups = relu;
  groups.Set("groups", int64_t{2});
  return {{.name = "bias",
           .inputs = {{.shape = {2, 5, 6, 3}}, {.shape = {3, 3, 3, 8}}, {.shape = {8}}},
           .check_gradient = false},
          {.name = "relu",
           .inputs = {{.shape = {2, 5, 6, 8}}, {.shape = {3, 3, 8, 16}}, {.shape = {16}}},
           .attrs = relu,
           .check_gradient = false},
          {.name = "relu_gray",
           .inputs = {{.shape = {2, 9, 8, 1}}, {.shape = {3, 3, 1, 16}}, {.shape = {16}}},
           .attrs = relu,
           .check_gradient = false},
          {.name = "relu_sum",
           .inputs = {{.shape = {2, 5, 6, 8}},
                      {.shape = {3, 3, 8, 16}},
                      {.shape = {16}},
                      {.shape = {2, 5, 6, 16}}},
           .attrs = relu,
           .check_gradient = false},
          {.name = "nchw_sum_odd_channels",
           .inputs = {{.shape = {2, 3, 6, 5}},
                      {.shape = {3, 3, 3, 6}},
                      {.shape = {6}},
                      {.shape = {2, 6, 6, 5}}},
           .attrs = nchw,
           .check_gradient = false},
          {.name = "groups",
           .inputs = {{.shape = {1, 5, 6, 4}}, {.shape = {3, 3, 2, 6}}, {.shape = {6}}},
           .attrs = groups,
           .check_gradient = false}};
}

}  // namespace

OpDef FusedConv2DDef() {
  return {.name = "FusedConv2D",
          .summary = "activation(Conv2D + bias + sum)",
          .min_inputs = 3,
          .max_inputs = 4,
          .attrs = internal::ConvAttrs({{"activation", AttrType::kString, std::string("none")}}),
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples,
          .internal = true};
}

}  // namespace lockstep::op
