#include "lockstep/op/variable.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <type_traits>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

Status VariableInfer(InferContext& ctx) {
  const auto& shape = ctx.attrs().Get<Shape>("shape");
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("a variable needs a fully known shape, found {}", shape.ToString()));
  }
  ctx.AddVariableOutput(ctx.attrs().Get<DType>("dtype"), shape);
  return OkStatus();
}

Status AssignInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectSameShape(0, 1));
  ctx.AddVariableOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status UpdateInfer(InferContext& ctx) {
  if (ctx.dtype(0) == DType::kBool || ctx.dtype(0) == DType::kUInt8) {
    return InvalidArgument(fmt::format("input 0 is {}, expected a floating type, int32 or int64",
                                       DTypeName(ctx.dtype(0))));
  }
  return AssignInfer(ctx);
}

// The variable keeps its layout and the value comes in the same one.
Kernel WriteKernel(const KernelRequest& request) {
  Kernel kernel;
  const Layout& layout = request.inputs[0].layout;
  kernel.input_layouts = {layout, layout};
  kernel.output_layouts = {layout};
  kernel.alias = {0};
  return kernel;
}

Result<Kernel> AssignCpu(const KernelRequest& request) {
  Kernel kernel = WriteKernel(request);
  kernel.run = [bytes = request.inputs[0].bytes()](const KernelArgs& args) {
    std::memcpy(args.inputs[0], args.inputs[1], bytes);
    return OkStatus();
  };
  return kernel;
}

// Integers wrap around.
template <class T, int kSign>
T Updated(T old, T value) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const U change = kSign > 0 ? static_cast<U>(value) : U{0} - static_cast<U>(value);
    return static_cast<T>(static_cast<U>(old) + change);
  } else {
    return kSign > 0 ? old + value : old - value;
  }
}

template <class T, int kSign>
std::function<Status(const KernelArgs&)> UpdateRun(const KernelRequest& request) {
  const auto n = static_cast<int64_t>(request.inputs[0].bytes() / sizeof(T));
  return [n, threads = request.threads](const KernelArgs& args) {
    T* variable = args.variable<T>(0);
    const T* value = args.in<T>(1);
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        variable[i] = Updated<T, kSign>(variable[i], value[i]);
      }
    });
    return OkStatus();
  };
}

template <int kSign>
Result<Kernel> UpdateCpu(const KernelRequest& request) {
  Kernel kernel = WriteKernel(request);
  switch (request.inputs[0].dtype) {
    case DType::kFloat32:
      kernel.run = UpdateRun<float, kSign>(request);
      break;
    case DType::kInt32:
      kernel.run = UpdateRun<int32_t, kSign>(request);
      break;
    case DType::kInt64:
      kernel.run = UpdateRun<int64_t, kSign>(request);
      break;
    default:
      return Unimplemented("no kernel for this type");
  }
  return kernel;
}

template <int kSign>
Status UpdateReference(const ReferenceContext& ctx) {
  for (size_t i = 0; i < ctx.inputs[1].size(); ++i) {
    ctx.variables[0][i] += kSign * ctx.inputs[1][i];
  }
  ctx.outputs[0] = ctx.variables[0];
  return OkStatus();
}

Status AssignReference(const ReferenceContext& ctx) {
  ctx.variables[0] = ctx.inputs[1];
  ctx.outputs[0] = ctx.inputs[1];
  return OkStatus();
}

std::vector<Sample> Samples() {
  return {{.name = "matrix", .inputs = {{Shape{3, 5}}, {Shape{3, 5}}}},
          {.name = "scalar int",
           .inputs = {{Shape{}, DType::kInt64, -9, 9}, {Shape{}, DType::kInt64, -9, 9}}},
          {.name = "int32", .inputs = {{Shape{9}, DType::kInt32}, {Shape{9}, DType::kInt32}}}};
}

OpDef UpdateDef(std::string_view name, std::string_view summary, KernelFn cpu,
                ReferenceFn reference) {
  return {.name = name,
          .summary = summary,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = UpdateInfer,
          .cpu = cpu,
          .reference = reference,
          .samples = Samples,
          .written_inputs = 1,
          .stateful = true};
}

}  // namespace

OpDef VariableDef() {
  return {.name = "Variable",
          .summary = "state that outlives a step",
          .attrs = {{"dtype", AttrType::kDType},
                    {"shape", AttrType::kShape},
                    {"trainable", AttrType::kBool, true}},
          .infer = VariableInfer,
          .stateful = true};
}

OpDef AssignDef() {
  return {.name = "Assign",
          .summary = "variable = value",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = AssignInfer,
          .cpu = AssignCpu,
          .reference = AssignReference,
          .samples = Samples,
          .written_inputs = 1,
          .initialized_inputs = 1,
          .stateful = true};
}

OpDef AssignAddDef() {
  return UpdateDef("AssignAdd", "variable += value", UpdateCpu<1>, UpdateReference<1>);
}

OpDef AssignSubDef() {
  return UpdateDef("AssignSub", "variable -= value", UpdateCpu<-1>, UpdateReference<-1>);
}

Value Variable(BuildContext ctx, std::string_view name, Value initial, bool trainable) {
  if (!initial.valid()) {
    return ctx.Fail(InvalidArgument(fmt::format("variable '{}' has no valid initial value", name)));
  }
  if (name.empty()) {
    return ctx.Fail(InvalidArgument("a variable needs a name"));
  }
  const AttrMap attrs = {
      {"dtype", initial.dtype()}, {"shape", initial.shape()}, {"trainable", trainable}};
  const Value variable = ctx.Add("Variable", {}, attrs, name);
  if (!variable.valid()) {
    return {};
  }
  // The suffix that made the name unique belongs to the assignment too.
  const std::string suffix = variable.node->name.substr(ctx.builder().Scoped(name).size());
  const Value assign = Assign(ctx, variable, initial, fmt::format("{}{}/Assign", name, suffix));
  if (!assign.valid()) {
    return {};
  }
  ctx.graph().AddToCollection(collection::kVariables, variable);
  if (trainable) {
    ctx.graph().AddToCollection(collection::kTrainableVariables, variable);
  }
  ctx.graph().AddToCollection(collection::kInitializers, assign);
  return variable;
}

Value Assign(BuildContext ctx, Value variable, Value value, std::string_view name) {
  return ctx.Add("Assign", {variable, value}, {}, name);
}

Value AssignAdd(BuildContext ctx, Value variable, Value value) {
  return ctx.Add("AssignAdd", {variable, value});
}

Value AssignSub(BuildContext ctx, Value variable, Value value) {
  return ctx.Add("AssignSub", {variable, value});
}

}  // namespace lockstep::op
