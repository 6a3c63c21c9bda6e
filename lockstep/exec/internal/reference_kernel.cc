#include "lockstep/exec/internal/reference_kernel.h"

#include <fmt/format.h>

#include "lockstep/exec/internal/copy_layout.h"
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

 private:
  Status Load(const TensorDesc& desc, const void* data, std::vector<double>& values) const;
  Status Store(const TensorDesc& desc, const std::vector<double>& values, void* data) const;
};

Status ReferenceCall::Load(const TensorDesc& desc, const void* data,
                           std::vector<double>& values) const {
  LS_ASSIGN_OR_RETURN(const Tensor plain, Tensor::Allocate(desc.dtype, desc.shape));
  LS_TRY(CopyLayout(desc.shape, desc.dtype, desc.layout, data, Layout(), plain.data()));
  values.resize(static_cast<size_t>(desc.shape.num_elements()));
  ConvertElements(desc.dtype, plain.data(), DType::kFloat64, values.data(),
                  desc.shape.num_elements());
  return OkStatus();
}

Status ReferenceCall::Store(const TensorDesc& desc, const std::vector<double>& values,
                            void* data) const {
  LS_ASSIGN_OR_RETURN(const Tensor plain, Tensor::Allocate(desc.dtype, desc.shape));
  ConvertElements(DType::kFloat64, values.data(), desc.dtype, plain.data(),
                  desc.shape.num_elements());
  return CopyLayout(desc.shape, desc.dtype, Layout(), plain.data(), desc.layout, data);
}

Status ReferenceCall::operator()(const KernelArgs& args) const {
  std::vector<Shape> input_shapes;
  std::vector<std::vector<double>> input_values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_shapes.push_back(inputs[i].shape);
    input_values.emplace_back();
    if (bound[i]) {
      LS_TRY(Load(inputs[i], args.inputs[i], input_values[i]));
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
      LS_TRY(Store(inputs[i], variables[i], args.inputs[i]));
    }
  }
  // Outputs of ops that write variables are those variables.
  for (size_t i = 0; i < outputs.size() && !node->op->writes_variables(); ++i) {
    LS_TRY(Store(outputs[i], output_values[i], args.outputs[i]));
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
  Kernel kernel;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    // A variable that is written stays in its layout.
    const bool written = op.Writes(static_cast<int>(i));
    kernel.input_layouts.push_back(written ? request.inputs[i].layout : Layout());
    call.inputs.push_back(request.inputs[i]);
    call.inputs.back().layout = kernel.input_layouts.back();
    call.bound.push_back(!op.UsesShapeOnly(static_cast<int>(i)));
  }
  call.outputs.assign(request.outputs.begin(), request.outputs.end());
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
