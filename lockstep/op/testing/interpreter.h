// Interpreter: runs a small graph node by node in tests, either with CPU kernels (falling back on
// the reference where there is none for a type) or with float64 references throughout.
//
//   Interpreter run(Interpreter::Mode::kKernels);
//   run.Feed(x, tensor);
//   LS_ASSIGN_OR_RETURN(DoubleTensor y, run.Evaluate(graph, y));
//
// Feeds and the values of variables stay for later calls; everything else is computed again.
#pragma once

#include <unordered_map>

#include "lockstep/op/testing/run_op.h"

namespace lockstep::op::testing {

class Interpreter {
 public:
  enum class Mode { kKernels, kReferences };

  explicit Interpreter(Mode mode, RunOptions options = {})
      : mode_(mode), options_(std::move(options)) {}

  // For placeholders, variables, or any other value.
  void Feed(Value value, DoubleTensor tensor) { feeds_[value] = std::move(tensor); }

  // Runs what the values need, in the graph's topological order.
  Result<std::vector<DoubleTensor>> Evaluate(const Graph& graph, std::span<const Value> values);
  Result<DoubleTensor> Evaluate(const Graph& graph, Value value);

  // Runs a node and what it needs.
  Status Run(const Graph& graph, const Node& target);

 private:
  using Values = std::unordered_map<Value, DoubleTensor, ValueHash>;

  // The values that running the targets, and what they need, makes.
  Result<Values> Execute(const Graph& graph, std::vector<const Node*> targets);
  Status RunNode(const Node& node, Values& values);
  Result<ReferenceResult> Compute(const Node& node, std::span<const DoubleTensor> inputs);

  Mode mode_;
  RunOptions options_;
  Values feeds_;
};

}  // namespace lockstep::op::testing
