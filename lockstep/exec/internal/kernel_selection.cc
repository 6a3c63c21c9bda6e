#include "lockstep/exec/internal/kernel_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/exec/internal/copy_layout.h"
#include "lockstep/exec/internal/reference_kernel.h"
#include "lockstep/op/reorder.h"
#include "lockstep/op/transfer.h"

namespace lockstep::exec {
namespace {

class KernelSelector {
 public:
  KernelSelector(const pass::SpecializedGraph& graph, VariableStore& store, int threads)
      : graph_(graph), store_(store), threads_(threads) {}

  Result<PlanGraph> Run();

 private:
  // How one node runs: a kernel, and the types in which it wants its inputs and makes its outputs.
  struct Choice {
    Kernel kernel;
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
  };

  Status AddNode(const Node& node);
  Status AddConst(const Node& node);
  Status AddVariable(const Node& node);
  Status AddStep(const Node& node);
  Status AddSend(const Node& node);
  Status AddRecv(const Node& node);
  Status AddShapeOnly(const Node& node);
  Status AddFetches();
  Result<Choice> Choose(const Node& node) const;
  Result<Kernel> Ask(const Node& node, const std::vector<TensorDesc>& inputs,
                     const std::vector<TensorDesc>& outputs) const;
  Status BindInputs(const Node& node, const Choice& choice, PlanStep& step);
  Status BindOutputs(const Node& node, const Choice& choice, PlanStep& step);

  // A value with the contents of `id` in another type and layout.
  Result<int> Adapt(const Node& node, int id, DType dtype, const Layout& layout);
  Result<int> AdaptConst(int id, DType dtype, const Layout& layout);
  // Adds a step that converts `from` into the (new) value `to`.
  Status AddReorder(const Node& node, std::string kind, int from, int to, std::vector<int> after);

  // The value in memory that is given to other devices, plain: itself, moved there, or a copy.
  Result<int> Share(const Node& node, int id);

  int AddValue(PlanValue value);

  int IdOf(const Value& value) const { return ids_.at(value); }

  // Steps that the control inputs of a node wait for.
  std::vector<int> ControlSteps(const Node& node) const;

  // The same, and the steps that make the inputs.
  std::vector<int> StepsBefore(const Node& node) const;

  // Marks a node that follows a write of a variable by data or control.
  void NoteWrites(const Node& node);

  const pass::SpecializedGraph& graph_;
  VariableStore& store_;
  int threads_;
  PlanGraph plan_;
  std::unordered_map<Value, int, ValueHash> ids_;
  std::unordered_map<const Node*, int> last_step_;
  std::unordered_map<const Variable*, int> variable_values_;
  // Adapted copies: (value, type) with their layouts.
  std::map<std::pair<int, DType>, std::vector<int>> adapted_;
  std::unordered_set<const Node*> after_write_;
  // Copies in shared memory.
  std::unordered_map<int, int> shared_;
};

int KernelSelector::AddValue(PlanValue value) {
  const int id = static_cast<int>(plan_.values.size());
  if (value.root == kNoValue) {
    value.root = id;
  }
  plan_.values.push_back(std::move(value));
  return id;
}

std::vector<int> KernelSelector::ControlSteps(const Node& node) const {
  std::vector<int> steps;
  for (const Node* control : node.control_inputs) {
    const auto it = last_step_.find(control);
    if (it != last_step_.end()) {
      steps.push_back(it->second);
    }
  }
  return steps;
}

std::vector<int> KernelSelector::StepsBefore(const Node& node) const {
  std::vector<int> steps = ControlSteps(node);
  for (const Value& input : node.inputs) {
    const auto it = last_step_.find(input.node);
    if (it != last_step_.end()) {
      steps.push_back(it->second);
    }
  }
  return steps;
}

void KernelSelector::NoteWrites(const Node& node) {
  const auto follows = [&](const Node* before) {
    return before->op->writes_variables() || after_write_.contains(before);
  };
  if (std::any_of(node.control_inputs.begin(), node.control_inputs.end(), follows) ||
      std::any_of(node.inputs.begin(), node.inputs.end(),
                  [&](const Value& input) { return follows(input.node); })) {
    after_write_.insert(&node);
  }
}

Status KernelSelector::AddConst(const Node& node) {
  PlanValue value;
  const Tensor& tensor = node.attrs.Get<Tensor>("value");
  value.desc = {tensor.dtype(), tensor.shape(), Layout(), false};
  value.storage = Storage::kConst;
  value.external = static_cast<int>(plan_.constants.size());
  plan_.constants.push_back(tensor);
  ids_[{const_cast<Node*>(&node), 0}] = AddValue(std::move(value));
  return OkStatus();
}

Status KernelSelector::AddVariable(const Node& node) {
  const TensorType& type = node.outputs[0];
  LS_ASSIGN_OR_RETURN(Variable * variable, store_.GetOrCreate(node.name, type.dtype, type.shape));
  const auto [it, is_new] = variable_values_.try_emplace(variable, 0);
  if (is_new) {
    PlanValue value;
    value.desc = {variable->dtype, variable->shape, variable->layout, !variable->settled};
    value.storage = Storage::kVariable;
    value.external = static_cast<int>(plan_.variables.size());
    plan_.variables.push_back(variable);
    it->second = AddValue(std::move(value));
  }
  ids_[{const_cast<Node*>(&node), 0}] = it->second;
  return OkStatus();
}

Result<Kernel> KernelSelector::Ask(const Node& node, const std::vector<TensorDesc>& inputs,
                                   const std::vector<TensorDesc>& outputs) const {
  if (node.op->cpu == nullptr) {
    return Unimplemented("no CPU kernel");
  }
  return node.op->cpu(KernelRequest{node, inputs, outputs, threads_});
}

Result<KernelSelector::Choice> KernelSelector::Choose(const Node& node) const {
  Choice choice;
  for (const Value& input : node.inputs) {
    choice.inputs.push_back(plan_.value(IdOf(input)).desc);
    // A view of a variable has its layout already.
    choice.inputs.back().flexible =
        choice.inputs.back().flexible && plan_.value(IdOf(input)).root == IdOf(input);
  }
  for (const TensorType& output : node.outputs) {
    choice.outputs.push_back({output.dtype, output.shape, Layout(), false});
  }
  Result<Kernel> kernel = Ask(node, choice.inputs, choice.outputs);
  if (!kernel.ok() && kernel.status().code() == StatusCode::kUnimplemented) {
    Choice wide = choice;
    bool widened = false;
    for (auto* descs : {&wide.inputs, &wide.outputs}) {
      for (TensorDesc& desc : *descs) {
        if (desc.dtype == DType::kBFloat16) {
          desc.dtype = DType::kFloat32;
          desc.flexible = false;
          widened = true;
        }
      }
    }
    if (widened && !node.op->writes_variables()) {
      kernel = Ask(node, wide.inputs, wide.outputs);
      if (kernel.ok()) {
        choice = std::move(wide);
      }
    }
  }
  if (!kernel.ok() && kernel.status().code() == StatusCode::kUnimplemented) {
    kernel = MakeReferenceKernel(KernelRequest{node, choice.inputs, choice.outputs, threads_});
  }
  LS_ASSIGN_OR_RETURN(choice.kernel, std::move(kernel));
  return choice;
}

Status KernelSelector::AddReorder(const Node& node, std::string kind, int from, int to,
                                  std::vector<int> after) {
  const TensorDesc& source = plan_.value(from).desc;
  const TensorDesc& target = plan_.value(to).desc;
  LS_ASSIGN_OR_RETURN(op::Reorder reorder,
                      op::MakeReorder(source.shape, source.dtype, source.layout, target.dtype,
                                      target.layout, threads_));
  PlanStep step;
  step.node = &node;
  step.kind = std::move(kind);
  step.inputs = {from};
  step.outputs = {to};
  step.after = std::move(after);
  step.rank = node.id;
  step.kernel.scratch_bytes = reorder.scratch_bytes;
  step.kernel.run = [run = std::move(reorder.run)](const KernelArgs& args) {
    return run(args.inputs[0], args.outputs[0], args.scratch);
  };
  plan_.value(to).producer = static_cast<int>(plan_.steps.size());
  plan_.steps.push_back(std::move(step));
  return OkStatus();
}

Result<int> KernelSelector::AdaptConst(int id, DType dtype, const Layout& layout) {
  PlanValue value = plan_.value(id);
  const Tensor source = plan_.constants[static_cast<size_t>(value.external)];
  LS_ASSIGN_OR_RETURN(const op::Reorder reorder, op::MakeReorder(value.desc.shape, value.desc.dtype,
                                                                 value.desc.layout, dtype, layout));
  const auto bytes = static_cast<int64_t>(layout.Bytes(value.desc.shape, dtype));
  LS_ASSIGN_OR_RETURN(Tensor target, Tensor::Allocate(DType::kUInt8, Shape{bytes}));
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch,
                      Buffer::Allocate(reorder.scratch_bytes));
  LS_TRY(reorder.run(source.data(), target.data(), scratch->data()));
  value.desc.dtype = dtype;
  value.desc.layout = layout;
  value.root = kNoValue;
  value.external = static_cast<int>(plan_.constants.size());
  plan_.constants.push_back(std::move(target));
  return AddValue(std::move(value));
}

Result<int> KernelSelector::Adapt(const Node& node, int id, DType dtype, const Layout& layout) {
  const PlanValue value = plan_.value(id);
  if (value.desc.dtype == dtype && value.desc.layout == layout) {
    return id;
  }
  // A node behind a write may have to see the variable as it is then: it gets its own copy.
  const bool shared =
      plan_.root_of(id).storage != Storage::kVariable || !after_write_.contains(&node);
  std::vector<int>& copies = adapted_[{id, dtype}];
  if (shared) {
    const auto copy = std::find_if(copies.begin(), copies.end(),
                                   [&](int c) { return plan_.value(c).desc.layout == layout; });
    if (copy != copies.end()) {
      return *copy;
    }
  }
  int result = kNoValue;
  if (plan_.root_of(id).storage == Storage::kConst && value.root == id) {
    LS_ASSIGN_OR_RETURN(result, AdaptConst(id, dtype, layout));
  } else {
    PlanValue target;
    target.desc = {dtype, value.desc.shape, layout, false};
    result = AddValue(std::move(target));
    const bool converts = value.desc.dtype != dtype;
    LS_TRY(AddReorder(node, converts ? "Convert" : "Reorder", id, result,
                      shared ? std::vector<int>{} : StepsBefore(node)));
  }
  if (shared) {
    copies.push_back(result);
  }
  return result;
}

Status KernelSelector::BindInputs(const Node& node, const Choice& choice, PlanStep& step) {
  const Kernel& kernel = choice.kernel;
  LS_CHECK(kernel.input_layouts.empty() || kernel.input_layouts.size() == node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.op->UsesShapeOnly(static_cast<int>(i))) {
      step.inputs.push_back(kNoValue);
      continue;
    }
    const int id = IdOf(node.inputs[i]);
    if (plan_.value(id).storage == Storage::kNothing) {
      return InvalidArgument(
          fmt::format("input {} ('{}') has a shape and no elements", i, node.inputs[i].name()));
    }
    const Layout layout = kernel.input_layouts.empty() ? Layout() : kernel.input_layouts[i];
    PlanValue& value = plan_.value(id);
    if (value.desc.flexible && value.root == id) {
      value.desc.flexible = false;
      value.desc.layout = layout;
    }
    LS_ASSIGN_OR_RETURN(const int adapted, Adapt(node, id, choice.inputs[i].dtype, layout));
    if (node.op->Writes(static_cast<int>(i)) && adapted != id) {
      return Internal(fmt::format("the kernel wants to write input {} in another layout", i));
    }
    step.inputs.push_back(adapted);
  }
  return OkStatus();
}

Status KernelSelector::BindOutputs(const Node& node, const Choice& choice, PlanStep& step) {
  const Kernel& kernel = choice.kernel;
  const int step_index = static_cast<int>(plan_.steps.size());
  LS_CHECK(kernel.output_layouts.empty() || kernel.output_layouts.size() == node.outputs.size());
  LS_CHECK(kernel.alias.empty() || kernel.alias.size() == node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    PlanValue value;
    value.desc = choice.outputs[i];
    value.producer = step_index;
    const int alias = kernel.alias.empty() ? Kernel::kNone : kernel.alias[i];
    if (alias != Kernel::kNone) {
      const PlanValue& source = plan_.value(step.inputs[static_cast<size_t>(alias)]);
      value.root = source.root;
      value.storage = source.storage;
      value.external = source.external;
      value.desc.layout = source.desc.layout.is_plain() ? Layout() : source.desc.layout;
    }
    if (!kernel.output_layouts.empty()) {
      value.desc.layout = kernel.output_layouts[i];
    }
    step.outputs.push_back(AddValue(std::move(value)));
  }
  return OkStatus();
}

Status KernelSelector::AddStep(const Node& node) {
  LS_ASSIGN_OR_RETURN(Choice choice, Choose(node));
  PlanStep step;
  step.node = &node;
  step.rank = node.id;
  step.kind = node.op->name;
  step.written_inputs = node.op->written_inputs;
  step.initialized_inputs = node.op->initialized_inputs;
  LS_TRY(BindInputs(node, choice, step));
  step.after = ControlSteps(node);
  LS_TRY(BindOutputs(node, choice, step));
  step.kernel = std::move(choice.kernel);
  last_step_[&node] = static_cast<int>(plan_.steps.size());
  const std::vector<int> outputs = step.outputs;
  plan_.steps.push_back(std::move(step));
  for (size_t i = 0; i < outputs.size(); ++i) {
    // A widened result goes back to the type that the graph says.
    LS_ASSIGN_OR_RETURN(const int id, Adapt(node, outputs[i], node.outputs[i].dtype,
                                            plan_.value(outputs[i]).desc.layout));
    ids_[{const_cast<Node*>(&node), static_cast<int>(i)}] = id;
  }
  return OkStatus();
}

Result<int> KernelSelector::Share(const Node& node, int id) {
  const PlanValue value = plan_.value(id);
  PlanValue& root = plan_.value(value.root);
  if (root.storage == Storage::kShared) {
    return id;
  }
  // The copy below is made from the layout of now: a variable that has not chosen one keeps it.
  root.desc.flexible = false;
  TensorDesc desc = value.desc;
  desc.layout = Layout();
  desc.flexible = false;
  const int external = static_cast<int>(plan_.shared.size());
  if (root.storage == Storage::kArena && root.desc.layout.is_plain()) {
    root.storage = Storage::kShared;
    root.external = external;
    desc.shape = root.desc.shape;
    plan_.shared.push_back(std::move(desc));
    return id;
  }
  // What a variable holds now may change before the receiver reads it.
  const bool reuse = root.storage != Storage::kVariable || !after_write_.contains(&node);
  const auto copy = shared_.find(id);
  if (reuse && copy != shared_.end()) {
    return copy->second;
  }
  PlanValue target;
  target.desc = desc;
  target.storage = Storage::kShared;
  target.external = external;
  plan_.shared.push_back(std::move(desc));
  const int result = AddValue(std::move(target));
  LS_TRY(AddReorder(node, "Copy", id, result, StepsBefore(node)));
  if (reuse) {
    shared_.emplace(id, result);
  }
  return result;
}

Status KernelSelector::AddSend(const Node& node) {
  PlanStep step;
  step.node = &node;
  step.rank = node.id;
  step.kind = node.op->name;
  step.transfer = static_cast<int>(plan_.sends.size());
  PlanTransfer transfer{.item = static_cast<uint64_t>(node.attrs.GetInt("transfer")),
                        .device = node.attrs.GetString("destination"),
                        .name = node.name,
                        .shape = Shape{0}};
  if (!node.inputs.empty()) {
    transfer.dtype = node.inputs[0].dtype();
    transfer.shape = node.inputs[0].shape();
    LS_ASSIGN_OR_RETURN(const int shared, Share(node, IdOf(node.inputs[0])));
    step.inputs.push_back(shared);
  }
  step.after = ControlSteps(node);
  plan_.sends.push_back(std::move(transfer));
  last_step_[&node] = static_cast<int>(plan_.steps.size());
  plan_.steps.push_back(std::move(step));
  return OkStatus();
}

Status KernelSelector::AddRecv(const Node& node) {
  PlanStep step;
  step.node = &node;
  step.rank = node.id;
  step.kind = node.op->name;
  step.transfer = static_cast<int>(plan_.recvs.size());
  step.after = ControlSteps(node);
  PlanValue value;
  value.desc = {node.outputs[0].dtype, node.outputs[0].shape, Layout(), false};
  value.storage = Storage::kReceived;
  value.external = step.transfer;
  value.producer = static_cast<int>(plan_.steps.size());
  plan_.recvs.push_back({.item = static_cast<uint64_t>(node.attrs.GetInt("transfer")),
                         .device = node.attrs.GetString("source"),
                         .name = node.name,
                         .dtype = value.desc.dtype,
                         .shape = value.desc.shape});
  const int id = AddValue(std::move(value));
  step.outputs.push_back(id);
  ids_[{const_cast<Node*>(&node), 0}] = id;
  last_step_[&node] = static_cast<int>(plan_.steps.size());
  plan_.steps.push_back(std::move(step));
  return OkStatus();
}

Status KernelSelector::AddShapeOnly(const Node& node) {
  PlanValue value;
  value.desc = {node.outputs[0].dtype, node.outputs[0].shape, Layout(), false};
  value.storage = Storage::kNothing;
  ids_[{const_cast<Node*>(&node), 0}] = AddValue(std::move(value));
  return OkStatus();
}

Status KernelSelector::AddNode(const Node& node) {
  NoteWrites(node);
  if (node.op->name == "Placeholder") {
    return OkStatus();  // feeds were added first
  }
  if (node.op->name == "Const") {
    return AddConst(node);
  }
  if (node.op->name == "Variable") {
    return AddVariable(node);
  }
  if (node.op->name == op::kSend) {
    return AddSend(node);
  }
  if (node.op->name == op::kRecv) {
    return AddRecv(node);
  }
  if (node.op->name == op::kShapeOnly) {
    return AddShapeOnly(node);
  }
  return AddStep(node);
}

Status KernelSelector::AddFetches() {
  for (const Value& fetch : graph_.fetches) {
    const int id = IdOf(fetch);
    PlanValue value;
    value.desc = plan_.value(id).desc;
    value.desc.layout = Layout();
    value.desc.flexible = false;
    value.storage = Storage::kFetch;
    value.external = static_cast<int>(plan_.fetches.size());
    plan_.fetches.push_back(value.desc);
    const int target = AddValue(std::move(value));
    LS_TRY(AddReorder(*fetch.node, "Fetch", id, target, ControlSteps(*fetch.node)));
  }
  return OkStatus();
}

Result<PlanGraph> KernelSelector::Run() {
  for (const Value& feed : graph_.feeds) {
    PlanValue value;
    value.storage = Storage::kFeed;
    value.external = static_cast<int>(plan_.feeds.size());
    if (feed.valid()) {
      value.desc = {feed.dtype(), feed.shape(), Layout(), false};
      ids_[feed] = static_cast<int>(plan_.values.size());
    }
    plan_.feeds.push_back(value.desc);
    AddValue(std::move(value));
  }
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.graph->TopologicalOrder());
  for (const Node* node : order) {
    LS_TRY(AddNode(*node).With(node->Describe()));
  }
  LS_TRY(AddFetches());
  return std::move(plan_);
}

}  // namespace

Result<PlanGraph> SelectKernels(const pass::SpecializedGraph& graph, VariableStore& store,
                                int threads) {
  return KernelSelector(graph, store, threads).Run();
}

}  // namespace lockstep::exec
