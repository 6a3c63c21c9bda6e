#include "lockstep/pass/specialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace lockstep::pass {
namespace {

class Specializer {
 public:
  Specializer(const Graph& graph, std::span<const Feed> feeds, std::span<const std::string> devices,
              std::span<Node* const> done)
      : graph_(graph), devices_(devices), done_(graph.nodes().size(), false) {
    for (const Node* node : done) {
      done_[static_cast<size_t>(node->id)] = true;
    }
    result_.graph = std::make_unique<Graph>(graph.catalog());
    result_.feeds.resize(feeds.size());
    for (size_t i = 0; i < feeds.size(); ++i) {
      feeds_.emplace(feeds[i].value, std::make_pair(i, &feeds[i]));
    }
  }

  Result<SpecializedGraph> Run(std::span<const Value> fetches, std::span<Node* const> targets);

 private:
  // A placeholder with a feed is there before the step: who waits for it waits for nothing.
  bool IsFedPlaceholder(const Node& node) const {
    return node.op->name == "Placeholder" && feeds_.contains({const_cast<Node*>(&node), 0});
  }

  // Has run, or is there before the step.
  bool IsOver(const Node& node) const {
    return done_[static_cast<size_t>(node.id)] || IsFedPlaceholder(node);
  }

  // What stands for a value of a node that is done and that is a variable.
  Value Current(Value value) const {
    const bool stands = done_[static_cast<size_t>(value.node->id)] && value.type().is_variable &&
                        !feeds_.contains(value);
    return stands ? WrittenVariable(value) : value;
  }

  // Marks what is needed, walking back from the fetches and targets and stopping at feeds.
  void Mark(std::span<const Value> fetches, std::span<Node* const> targets);
  Status CopyNode(const Node& node);
  Result<Value> Map(Value value);
  Result<Value> MakeFeed(size_t index, const Feed& feed);

  const std::string& DeviceOf(const Node& node) const {
    return devices_.empty() ? node.device : devices_[static_cast<size_t>(node.id)];
  }

  const Graph& graph_;
  std::span<const std::string> devices_;
  std::vector<bool> done_;
  std::unordered_map<Value, std::pair<size_t, const Feed*>, ValueHash> feeds_;
  std::vector<bool> needed_;
  std::unordered_map<const Node*, Node*> copies_;
  SpecializedGraph result_;
};

void Specializer::Mark(std::span<const Value> fetches, std::span<Node* const> targets) {
  needed_.assign(graph_.nodes().size(), false);
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (!needed_[static_cast<size_t>(node->id)] && !IsOver(*node)) {
      needed_[static_cast<size_t>(node->id)] = true;
      stack.push_back(node);
    }
  };
  const auto visit_value = [&](const Value& value) {
    if (!feeds_.contains(value)) {
      visit(Current(value).node);
    }
  };
  std::for_each(fetches.begin(), fetches.end(), visit_value);
  std::for_each(targets.begin(), targets.end(), visit);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    std::for_each(node->inputs.begin(), node->inputs.end(), visit_value);
    std::for_each(node->control_inputs.begin(), node->control_inputs.end(), visit);
  }
}

Result<Value> Specializer::MakeFeed(size_t index, const Feed& feed) {
  Value& made = result_.feeds[index];
  if (made.valid()) {
    return made;
  }
  const Node& node = *feed.value.node;
  if (feed.dtype != feed.value.dtype() || !feed.shape.fully_known() ||
      !feed.shape.CompatibleWith(feed.value.shape())) {
    return InvalidArgument(fmt::format("the feed of {} is {} {}, expected {}", node.Describe(),
                                       DTypeName(feed.dtype), feed.shape.ToString(),
                                       feed.value.type().ToString()));
  }
  NodeSpec spec;
  spec.name = result_.graph->UniqueName(
      feed.value.index == 0 ? node.name : fmt::format("{}_{}", node.name, feed.value.index));
  spec.op = "Placeholder";
  spec.attrs = {{"dtype", feed.dtype}, {"shape", feed.shape}};
  spec.device = DeviceOf(node);
  spec.file = node.file;
  spec.line = node.line;
  LS_ASSIGN_OR_RETURN(Node * placeholder, result_.graph->AddNode(std::move(spec)));
  made = placeholder->output();
  return made;
}

Result<Value> Specializer::Map(Value value) {
  value = Current(value);
  const auto feed = feeds_.find(value);
  if (feed != feeds_.end()) {
    return MakeFeed(feed->second.first, *feed->second.second);
  }
  const auto copy = copies_.find(value.node);
  if (copy == copies_.end()) {
    return Internal(fmt::format("{} has run, and its output is not fed", value.node->Describe()));
  }
  return Value{copy->second, value.index};
}

Status Specializer::CopyNode(const Node& node) {
  if (node.op->name == "Placeholder") {
    return InvalidArgument(
        fmt::format("{} must be fed: it is {}", node.Describe(), node.outputs[0].ToString()));
  }
  NodeSpec spec;
  // The feed of another output of the same node may have taken its name.
  spec.name = result_.graph->UniqueName(node.name);
  spec.op = node.op->name;
  for (const Value& input : node.inputs) {
    LS_ASSIGN_OR_RETURN(const Value mapped, Map(input));
    spec.inputs.push_back(mapped);
  }
  for (const Node* control : node.control_inputs) {
    if (!IsOver(*control)) {
      spec.control_inputs.push_back(copies_.at(control));
    }
  }
  spec.attrs = node.attrs;
  spec.device = DeviceOf(node);
  spec.file = node.file;
  spec.line = node.line;
  LS_ASSIGN_OR_RETURN(Node * copy, result_.graph->AddNode(std::move(spec)));
  for (const TensorType& output : copy->outputs) {
    if (!output.shape.fully_known()) {
      return InvalidArgument(fmt::format("the shape {} of {} does not follow from the feeds",
                                         output.shape.ToString(), node.Describe()));
    }
  }
  copies_.emplace(&node, copy);
  return OkStatus();
}

Result<SpecializedGraph> Specializer::Run(std::span<const Value> fetches,
                                          std::span<Node* const> targets) {
  Mark(fetches, targets);
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
  for (const Node* node : order) {
    if (needed_[static_cast<size_t>(node->id)]) {
      LS_TRY(CopyNode(*node));
    }
  }
  for (const Value& fetch : fetches) {
    LS_ASSIGN_OR_RETURN(const Value mapped, Map(fetch));
    result_.fetches.push_back(mapped);
  }
  for (Node* target : targets) {
    if (!IsOver(*target)) {
      result_.targets.push_back(copies_.at(target));
    }
  }
  return std::move(result_);
}

}  // namespace

Value WrittenVariable(Value value) {
  while (value.node->op->writes_variables()) {
    int written = 0;
    while (!value.node->op->Writes(written)) {
      ++written;
    }
    value = value.node->inputs[static_cast<size_t>(written)];
  }
  return value;
}

Result<SpecializedGraph> Specialize(const Graph& graph, std::span<const Feed> feeds,
                                    std::span<const Value> fetches, std::span<Node* const> targets,
                                    std::span<const std::string> devices,
                                    std::span<Node* const> done) {
  LS_CHECK(devices.empty() || devices.size() == graph.nodes().size());
  return Specializer(graph, feeds, devices, done).Run(fetches, targets);
}

}  // namespace lockstep::pass
