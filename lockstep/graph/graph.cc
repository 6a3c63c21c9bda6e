#include "lockstep/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/counted.h"
#include "lockstep/base/suggest.h"
#include "lockstep/graph/internal/topological_sort.h"

namespace lockstep {
namespace {

std::string DescribeSpec(const NodeSpec& spec) {
  Node node;
  node.name = spec.name;
  node.file = spec.file;
  node.line = spec.line;
  return fmt::format("op {} '{}'{}", spec.op, spec.name,
                     spec.file.empty() ? "" : fmt::format(" ({}:{})", spec.file, spec.line));
}

Status CheckAttrs(const OpDef& op, AttrMap& attrs) {
  for (const auto& [name, value] : attrs) {
    const auto def = std::find_if(
        op.attrs.begin(), op.attrs.end(),
        [wanted = std::string_view(name)](const AttrDef& a) { return a.name == wanted; });
    if (def == op.attrs.end()) {
      return InvalidArgument(fmt::format("there is no attribute '{}'", name));
    }
    if (def->type != TypeOf(value)) {
      return InvalidArgument(fmt::format("attribute '{}' is {}, expected {}", name,
                                         AttrTypeName(TypeOf(value)), AttrTypeName(def->type)));
    }
  }
  for (const AttrDef& def : op.attrs) {
    if (attrs.Find(def.name) != nullptr) {
      continue;
    }
    if (!def.default_value.has_value()) {
      return InvalidArgument(
          fmt::format("the attribute '{}' ({}) is missing", def.name, AttrTypeName(def.type)));
    }
    attrs.Set(def.name, *def.default_value);
  }
  return OkStatus();
}

Status CheckInputs(const OpDef& op, const std::vector<Value>& inputs) {
  const auto count = static_cast<int>(inputs.size());
  if (count < op.min_inputs || (op.max_inputs != OpDef::kVariadic && count > op.max_inputs)) {
    std::string allowed = fmt::format("{}", op.min_inputs);
    if (op.max_inputs == OpDef::kVariadic) {
      allowed += " or more";
    } else if (op.max_inputs != op.min_inputs) {
      allowed += fmt::format(" to {}", op.max_inputs);
    }
    return InvalidArgument(fmt::format("it has {}, expected {}", Counted(count, "input"), allowed));
  }
  for (int i = 0; i < count; ++i) {
    const Value& input = inputs[static_cast<size_t>(i)];
    if (input.index < 0 || static_cast<size_t>(input.index) >= input.node->outputs.size()) {
      return InvalidArgument(fmt::format("input {} is output {} of '{}', which has {}", i,
                                         input.index, input.node->name,
                                         Counted(input.node->outputs.size(), "output")));
    }
    if (op.Writes(i) && !input.type().is_variable) {
      return InvalidArgument(fmt::format("input {} ('{}') must be a variable", i, input.name()));
    }
  }
  return OkStatus();
}

Status CheckOutputs(const std::vector<TensorType>& outputs) {
  for (const TensorType& output : outputs) {
    LS_TRY(Shape::Create(output.shape.dims()).status());
    constexpr auto kMaxBytes = static_cast<size_t>(PTRDIFF_MAX);
    if (output.shape.fully_known() &&
        static_cast<size_t>(output.shape.num_elements()) > kMaxBytes / DTypeSize(output.dtype)) {
      return InvalidArgument(
          fmt::format("the output {} is larger than any memory", output.ToString()));
    }
  }
  return OkStatus();
}

}  // namespace

Status CheckNodeName(std::string_view name) {
  const auto is_alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  constexpr std::string_view kInside = "_./-\\>";
  const bool good = !name.empty() && (is_alnum(name[0]) || name[0] == '.') &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return is_alnum(c) || kInside.find(c) != std::string_view::npos;
                    });
  if (!good) {
    return InvalidArgument(
        fmt::format("'{}' is no name of a node: allowed are letters, digits and _ . / - \\ >, with "
                    "a letter, a digit or . first",
                    name));
  }
  return OkStatus();
}

Result<Node*> Graph::AddNode(NodeSpec spec) {
  const auto fail = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", DescribeSpec(spec), status.message()));
  };
  const OpDef* op = catalog_.Find(spec.op);
  if (op == nullptr) {
    std::vector<std::string_view> names;
    for (const OpDef& known : catalog_.ops()) {
      names.push_back(known.name);
    }
    return fail(
        NotFound(fmt::format("there is no op '{}'{}", spec.op, DidYouMean(spec.op, names))));
  }
  if (const Status status = CheckNodeName(spec.name); !status.ok()) {
    return fail(status);
  }
  if (by_name_.contains(spec.name)) {
    return fail(AlreadyExists("a node with this name exists"));
  }
  if (const Status status = CheckAttrs(*op, spec.attrs); !status.ok()) {
    return fail(status);
  }
  if (const Status status = CheckInputs(*op, spec.inputs); !status.ok()) {
    return fail(status);
  }
  std::vector<TensorType> input_types;
  for (const Value& input : spec.inputs) {
    input_types.push_back(input.type());
  }
  InferContext ctx(spec.attrs, input_types);
  if (const Status status = op->infer(ctx); !status.ok()) {
    return fail(status);
  }
  std::vector<TensorType> outputs = ctx.TakeOutputs();
  if (const Status status = CheckOutputs(outputs); !status.ok()) {
    return fail(status);
  }
  auto node = std::make_unique<Node>();
  node->id = static_cast<int>(nodes_.size());
  node->name = std::move(spec.name);
  node->op = op;
  node->inputs = std::move(spec.inputs);
  node->control_inputs = std::move(spec.control_inputs);
  node->attrs = std::move(spec.attrs);
  node->outputs = std::move(outputs);
  node->device = std::move(spec.device);
  node->colocate_with = std::move(spec.colocate_with);
  node->file = std::move(spec.file);
  node->line = spec.line;
  Node* result = node.get();
  by_name_.emplace(node->name, result);
  nodes_.push_back(std::move(node));
  return result;
}

void Graph::AddControlEdge(Node* before, Node* after) {
  auto& inputs = after->control_inputs;
  if (std::find(inputs.begin(), inputs.end(), before) == inputs.end()) {
    inputs.push_back(before);
  }
}

Node* Graph::FindNode(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

Result<Value> Graph::FindValue(std::string_view name) const {
  const size_t colon = name.rfind(':');
  int index = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0) {
      return InvalidArgument(
          fmt::format("'{}' is no name of a value: expected NAME or NAME:OUTPUT", name));
    }
  }
  Node* node = FindNode(name.substr(0, colon));
  if (node == nullptr) {
    std::vector<std::string_view> names;
    for (const auto& known : nodes_) {
      names.push_back(known->name);
    }
    return NotFound(fmt::format("the graph has no node '{}'{}", name.substr(0, colon),
                                DidYouMean(name.substr(0, colon), names)));
  }
  if (static_cast<size_t>(index) >= node->outputs.size()) {
    return OutOfRange(fmt::format("node '{}' has {}, there is no output {}", node->name,
                                  Counted(node->outputs.size(), "output"), index));
  }
  return Value{node, index};
}

std::string Graph::UniqueName(std::string_view wanted) const {
  std::string name(wanted);
  for (int suffix = 1; by_name_.contains(name); ++suffix) {
    name = fmt::format("{}_{}", wanted, suffix);
  }
  return name;
}

Result<std::vector<Node*>> Graph::TopologicalOrder() const {
  std::vector<std::vector<int>> predecessors(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Value& input : nodes_[i]->inputs) {
      predecessors[i].push_back(input.node->id);
    }
    for (const Node* control : nodes_[i]->control_inputs) {
      predecessors[i].push_back(control->id);
    }
  }
  const internal::TopologicalSort sort = internal::SortTopologically(predecessors);
  const auto node = [&](int id) { return nodes_[static_cast<size_t>(id)].get(); };
  if (!sort.cycle.empty()) {
    const std::string cycle = internal::DescribeCycle(
        sort.cycle, [&](int id) -> std::string_view { return node(id)->name; });
    return InvalidArgument(
        fmt::format("the graph has a cycle: {} [{}]", cycle, node(sort.cycle.front())->Describe()));
  }
  std::vector<Node*> order;
  order.reserve(sort.order.size());
  for (const int id : sort.order) {
    order.push_back(node(id));
  }
  return order;
}

void Graph::AddToCollection(std::string_view collection, Value value) {
  collections_[std::string(collection)].push_back(value);
}

std::span<const Value> Graph::Collection(std::string_view collection) const {
  const auto it = collections_.find(collection);
  return it == collections_.end() ? std::span<const Value>() : it->second;
}

}  // namespace lockstep
