#include "lockstep/exec/internal/reference_kernel.h"

#include <fmt/format.h>

#include "lockstep/graph/op_def.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::exec {
namespace {

struct ReferenceCall {
  const Node* node;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<bool> bound;

  Status operator()(const KernelArgs& args) const;
};

Status ReferenceCall::operator()(const KernelArgs& args) const {
  std::vector<Shape> input_shapes;
  std::vector<std::vector<double>> input_values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t count = inputs[i].shape.num_elements();
    input_shapes.push_back(inputs[i].shape);
    input_values.emplace_back(static_cast<size_t>(bound[i] ? count : 0));
    if (bound[i]) {
      ConvertElements(inputs[i].dtype, args.inputs[i], DType::kFloat64, input_values[i].data(),
                      count);
    }
  }
  std::vector<Shape> output_shapes;
  std::vector<DType> output_dtypes;
  std::vector<std::vector<double>> output_values;
  for (const TensorDesc& output : outputs) {
    output_shapes.push_back(output.shape);
    output_dtypes.push_back(output.dtype);
    output_values.emplace_back(static_cast<size_t>(output.shape.num_elements()));
  }
  std::vector<std::vector<double>> variables = input_values;
  LS_TRY(
      node->op->reference(ReferenceContext{*node, input_shapes, input_values, output_shapes,
                                           output_values, variables, *args.step, output_dtypes}));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node->op->Writes(static_cast<int>(i))) {
      ConvertElements(DType::kFloat64, variables[i].data(), inputs[i].dtype, args.inputs[i],
                      inputs[i].shape.num_elements());
    }
  }
  // Outputs of ops that write variables are those variables.
  for (size_t i = 0; i < outputs.size() && !node->op->writes_variables(); ++i) {
    ConvertElements(DType::kFloat64, output_values[i].data(), outputs[i].dtype, args.outputs[i],
                    outputs[i].shape.num_elements());
  }
  return OkStatus();
}

}  // namespace

Result<Kernel> MakeReferenceKernel(const KernelRequest& request) {
  const OpDef& op = *request.node.op;
  if (op.reference == nullptr) {
    std::string types;
    for (const TensorDesc& input : request.inputs) {
      types += fmt::format("{}{}", types.empty() ? "" : ", ", DTypeName(input.dtype));
    }
    return Unimplemented(fmt::format("{} has no CPU kernel for ({})", op.name, types));
  }
  ReferenceCall call{&request.node, {}, {}, {}};
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    call.inputs.push_back(request.inputs[i]);
    call.bound.push_back(!op.UsesShapeOnly(static_cast<int>(i)));
  }
  call.outputs.assign(request.outputs.begin(), request.outputs.end());
  Kernel kernel;
  if (op.writes_variables()) {
    // The variable that is written first is the result.
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      kernel.alias.push_back(0);
    }
  }
  kernel.run = std::move(call);
  return kernel;
}

}  // namespace lockstep::exec
