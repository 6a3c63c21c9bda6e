// The intermediate form of a plan: values with layouts and storage, and the steps that make them.
// Kernel selection builds it, scheduling orders its steps, memory planning places its values,
// emission turns it into a Plan.
#pragma once

#include <string>
#include <vector>

#include "lockstep/exec/internal/plan_transfers.h"
#include "lockstep/exec/variable_store.h"
#include "lockstep/graph/kernel.h"
#include "lockstep/graph/node.h"

namespace lockstep::exec {

inline constexpr int kNoValue = -1;

enum class Storage : uint8_t {
  kArena,     // placed by the memory plan
  kFeed,      // the caller's tensor
  kConst,     // owned by the plan
  kVariable,  // in the variable store
  kFetch,     // the caller's result
  kShared,    // owned by the plan, given to other devices
  kReceived,  // given by another device
  kNothing,   // only the shape is used
};

inline constexpr int kNoTransfer = -1;

struct PlanValue {
  TensorDesc desc;
  Storage storage = Storage::kArena;
  // Index among the feeds, constants, variables, fetches, shared tensors or receives.
  int external = -1;
  // The value whose storage this one is: itself, or what it is a view of.
  int root = kNoValue;
  // The step that makes it, or -1 if it exists before the first step.
  int producer = -1;
};

struct PlanStep {
  // The node that the step belongs to; for messages and profiles.
  const Node* node = nullptr;
  // "Conv2D", "Reorder", "Fetch"...
  std::string kind;
  std::vector<int> inputs;  // kNoValue: bound to nothing (shape only)
  std::vector<int> outputs;
  // Bit i: input i is a variable that the step writes, or makes valid.
  uint32_t written_inputs = 0;
  uint32_t initialized_inputs = 0;
  // Steps that must have run before, besides the producers of the inputs.
  std::vector<int> after;
  // Place in the order of the graph, which a plan with transfers keeps to.
  int rank = 0;
  // Index among the sends or receives, of a step that is one.
  int transfer = kNoTransfer;
  Kernel kernel;
};

struct PlanGraph {
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;
  std::vector<Tensor> constants;  // element bytes in the layout of their value
  std::vector<Variable*> variables;
  std::vector<TensorDesc> feeds;
  std::vector<TensorDesc> fetches;
  std::vector<TensorDesc> shared;
  std::vector<PlanTransfer> sends;
  std::vector<PlanTransfer> recvs;

  bool has_transfers() const { return !sends.empty() || !recvs.empty(); }

  const PlanValue& value(int id) const { return values[static_cast<size_t>(id)]; }

  PlanValue& value(int id) { return values[static_cast<size_t>(id)]; }

  const PlanValue& root_of(int id) const { return value(value(id).root); }
};

}  // namespace lockstep::exec
