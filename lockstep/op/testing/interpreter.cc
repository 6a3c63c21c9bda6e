#include "lockstep/op/testing/interpreter.h"

#include <fmt/format.h>

#include <unordered_set>

namespace lockstep::op::testing {
namespace {

// The targets and all nodes before them, up to values that are fed.
template <class IsFed>
std::unordered_set<const Node*> Needed(std::vector<const Node*> pending, IsFed is_fed) {
  std::unordered_set<const Node*> needed;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!needed.insert(node).second) {
      continue;
    }
    for (const Value& input : node->inputs) {
      if (!is_fed(input)) {
        pending.push_back(input.node);
      }
    }
    pending.insert(pending.end(), node->control_inputs.begin(), node->control_inputs.end());
  }
  return needed;
}

}  // namespace

Result<ReferenceResult> Interpreter::Compute(const Node& node,
                                             std::span<const DoubleTensor> inputs) {
  if (mode_ == Mode::kReferences) {
    return RunReference(node, inputs, options_.step);
  }
  std::vector<Tensor> tensors;
  for (const DoubleTensor& input : inputs) {
    LS_ASSIGN_OR_RETURN(Tensor tensor, FromDoubleTensor(input));
    tensors.push_back(std::move(tensor));
  }
  Result<NodeResult> result = RunKernel(node, tensors, options_);
  if (!result.ok()) {
    return result.status().code() == StatusCode::kUnimplemented
               ? RunReference(node, inputs, options_.step)
               : Result<ReferenceResult>(result.status());
  }
  ReferenceResult doubles;
  for (const Tensor& output : result->outputs) {
    doubles.outputs.push_back(ToDoubleTensor(output));
  }
  for (const Tensor& variable : result->variables) {
    doubles.variables.push_back(variable.has_value() ? ToDoubleTensor(variable) : DoubleTensor{});
  }
  return doubles;
}

Status Interpreter::RunNode(const Node& node, Values& values) {
  std::vector<DoubleTensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& input = node.inputs[i];
    if (const auto fed = feeds_.find(input); fed != feeds_.end()) {
      inputs.push_back(fed->second);
    } else if (const auto value = values.find(input); value != values.end()) {
      inputs.push_back(value->second);
    } else if (node.op->Initializes(static_cast<int>(i))) {
      inputs.push_back({input.dtype(), input.shape(),
                        std::vector<double>(static_cast<size_t>(input.shape().num_elements()))});
    } else {
      return FailedPrecondition(
          fmt::format("{}: input '{}' has no value", node.Describe(), input.name()));
    }
  }
  LS_ASSIGN_OR_RETURN(ReferenceResult result, Compute(node, inputs));
  for (size_t o = 0; o < result.outputs.size(); ++o) {
    values[Value{const_cast<Node*>(&node), static_cast<int>(o)}] = std::move(result.outputs[o]);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.op->Writes(static_cast<int>(i))) {
      feeds_[node.inputs[i]] = std::move(result.variables[i]);
    }
  }
  return OkStatus();
}

Result<Interpreter::Values> Interpreter::Execute(const Graph& graph,
                                                 std::vector<const Node*> targets) {
  const auto needed =
      Needed(std::move(targets), [&](const Value& value) { return feeds_.contains(value); });
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  Values values;
  for (const Node* node : order) {
    // Placeholders and variables have no reference; who reads one without a feed fails.
    if (needed.contains(node) && node->op->reference != nullptr) {
      LS_TRY(RunNode(*node, values));
    }
  }
  return values;
}

Status Interpreter::Run(const Graph& graph, const Node& target) {
  return Execute(graph, {&target}).status();
}

Result<std::vector<DoubleTensor>> Interpreter::Evaluate(const Graph& graph,
                                                        std::span<const Value> values) {
  std::vector<const Node*> targets;
  for (const Value& value : values) {
    if (!feeds_.contains(value)) {
      targets.push_back(value.node);
    }
  }
  LS_ASSIGN_OR_RETURN(const Values computed, Execute(graph, std::move(targets)));
  std::vector<DoubleTensor> results;
  for (const Value& value : values) {
    const Values& source = feeds_.contains(value) ? feeds_ : computed;
    const auto found = source.find(value);
    if (found == source.end()) {
      return FailedPrecondition(fmt::format("'{}' has no value", value.name()));
    }
    results.push_back(found->second);
  }
  return results;
}

Result<DoubleTensor> Interpreter::Evaluate(const Graph& graph, Value value) {
  LS_ASSIGN_OR_RETURN(std::vector<DoubleTensor> results,
                      Evaluate(graph, std::span<const Value>(&value, 1)));
  return std::move(results[0]);
}

}  // namespace lockstep::op::testing
