// Runs single nodes in tests: by their CPU kernel on plain tensors, or by their float64 reference.
//
// RunKernel does what a plan does, slowly and with checks: it offers the inputs in a chosen layout,
// copies them into the layouts that the kernel asks for, fills outputs and scratch memory with
// NaN patterns before the kernel runs, and verifies that the kernel stays inside its buffers.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/graph/kernel.h"

namespace lockstep::op::testing {

// In what layout the inputs of rank 2 or more exist when the kernel is asked for.
enum class InputLayout {
  kPlain,
  // Dense, first dimension outermost, the others in reverse (as NHWC memory under NCHW dimensions).
  kTransposed,
  // Dimension 1 in blocks of 8, padded: nChw8c.
  kBlocked8,
};

struct RunOptions {
  int threads = 1;
  StepInfo step = {};
  InputLayout layout = InputLayout::kPlain;
  // Outputs take over the buffers that Kernel::in_place names.
  bool in_place = false;
};

struct NodeResult {
  std::vector<Tensor> outputs;
  // The new value of each input that is written; no tensor for the others.
  std::vector<Tensor> variables;
};

// One tensor as doubles, whatever its type.
struct DoubleTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<double> values;
};

// Deterministic values for input `index` of a sample.
Result<Tensor> MakeInput(const SampleInput& input, int index);

// A node of `op` on placeholders, or variables where it writes, of the inputs' types.
Result<Node*> MakeNode(Graph& graph, std::string_view op, std::span<const TensorType> inputs,
                       const AttrMap& attrs);

// The output types of the node for inputs of these types.
Result<std::vector<TensorType>> InferOutputs(const Node& node, std::span<const TensorType> inputs);

// kUnimplemented if the op has no kernel for these types.
Result<NodeResult> RunKernel(const Node& node, std::span<const Tensor> inputs,
                             const RunOptions& options = {});

struct ReferenceResult {
  std::vector<DoubleTensor> outputs;
  std::vector<DoubleTensor> variables;
};

// Outputs are not rounded to their types.
Result<ReferenceResult> RunReference(const Node& node, std::span<const DoubleTensor> inputs,
                                     const StepInfo& step = {});

DoubleTensor ToDoubleTensor(const Tensor& tensor);
Result<Tensor> FromDoubleTensor(const DoubleTensor& tensor);

// Kernel outputs of one op of the catalog, for tests of single ops.
Result<std::vector<Tensor>> RunOp(std::string_view op, std::span<const Tensor> inputs,
                                  const AttrMap& attrs = {}, const RunOptions& options = {});

}  // namespace lockstep::op::testing
