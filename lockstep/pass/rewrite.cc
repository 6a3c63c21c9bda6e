#include "lockstep/pass/rewrite.h"

#include <algorithm>
#include <functional>

#include "lockstep/op/transfer.h"

namespace lockstep::pass {
namespace {

// Copies a graph with some groups of nodes replaced.
class Copier {
 public:
  explicit Copier(const Graph& source) : copy_(std::make_unique<Graph>(source.catalog())) {}

  Status Copy(const Node& node) {
    NodeSpec spec = SpecOf(node);
    spec.op = node.op->name;
    spec.attrs = node.attrs;
    for (const Value& input : node.inputs) {
      spec.inputs.push_back(Map(input));
    }
    for (const Node* control : node.control_inputs) {
      spec.control_inputs.push_back(nodes_.at(control));
    }
    LS_ASSIGN_OR_RETURN(Node * made, copy_->AddNode(std::move(spec)));
    nodes_[&node] = made;
    return OkStatus();
  }

  Status Replace(const Node& at, const Replacement& replacement) {
    NodeSpec spec = SpecOf(at);
    spec.op = replacement.op;
    spec.attrs = replacement.attrs;
    for (const Value& input : replacement.inputs) {
      spec.inputs.push_back(Map(input));
    }
    LS_ASSIGN_OR_RETURN(Node * made, copy_->AddNode(std::move(spec)));
    for (size_t i = 0; i < replacement.outputs.size(); ++i) {
      replaced_[replacement.outputs[i]] = made->output(static_cast<int>(i));
      nodes_[replacement.outputs[i].node] = made;
    }
    nodes_[&at] = made;
    return OkStatus();
  }

  Value Map(Value value) const {
    const auto replaced = replaced_.find(value);
    if (replaced != replaced_.end()) {
      return replaced->second;
    }
    return {nodes_.at(value.node), value.index};
  }

  Node* MapNode(const Node* node) const { return nodes_.at(node); }

  std::unique_ptr<Graph> Take() { return std::move(copy_); }

 private:
  static NodeSpec SpecOf(const Node& node) {
    NodeSpec spec;
    spec.name = node.name;
    spec.device = node.device;
    spec.file = node.file;
    spec.line = node.line;
    return spec;
  }

  std::unique_ptr<Graph> copy_;
  std::unordered_map<const Node*, Node*> nodes_;
  std::unordered_map<Value, Value, ValueHash> replaced_;
};

}  // namespace

Uses::Uses(const SpecializedGraph& graph) {
  for (const auto& node : graph.graph->nodes()) {
    for (const Value& input : node->inputs) {
      readers_[input].push_back(node.get());
    }
    for (const Node* control : node->control_inputs) {
      waited_for_.insert(control);
    }
  }
  fetched_.insert(graph.fetches.begin(), graph.fetches.end());
  waited_for_.insert(graph.targets.begin(), graph.targets.end());
  FindWritesBefore(*graph.graph);
  CountWrites(*graph.graph);
}

void Uses::CountWrites(const Graph& graph) {
  const auto is_transfer = [](const auto& node) {
    return node->op->name == op::kSend || node->op->name == op::kRecv;
  };
  if (std::any_of(graph.nodes().begin(), graph.nodes().end(), is_transfer)) {
    int writes = 0;
    for (const auto& node : graph.nodes()) {
      writes += node->op->writes_variables() ? 1 : 0;
      writes_up_to_.push_back(writes);
    }
  }
}

void Uses::FindWritesBefore(const Graph& graph) {
  std::unordered_map<const Node*, size_t> numbers;
  for (const auto& node : graph.nodes()) {
    if (node->op->writes_variables()) {
      numbers.emplace(node.get(), numbers.size());
    }
  }
  for (const auto& node : graph.nodes()) {
    std::vector<bool> before;
    const auto follow = [&](const Node* other) {
      const auto number = numbers.find(other);
      const auto others = writes_before_.find(other);
      if (number == numbers.end() && others == writes_before_.end()) {
        return;
      }
      before.resize(numbers.size());
      if (number != numbers.end()) {
        before[number->second] = true;
      }
      if (others != writes_before_.end()) {
        std::transform(before.begin(), before.end(), others->second.begin(), before.begin(),
                       std::logical_or<>());
      }
    };
    for (const Value& input : node->inputs) {
      follow(input.node);
    }
    std::for_each(node->control_inputs.begin(), node->control_inputs.end(), follow);
    if (!before.empty()) {
      writes_before_.emplace(node.get(), std::move(before));
    }
  }
}

bool Uses::SeeTheSameVariables(const Node* earlier, const Node* later) const {
  if (!writes_up_to_.empty() && writes_up_to_[static_cast<size_t>(earlier->id)] !=
                                    writes_up_to_[static_cast<size_t>(later->id)]) {
    return false;
  }
  const auto before_earlier = writes_before_.find(earlier);
  const auto before_later = writes_before_.find(later);
  if (before_later == writes_before_.end()) {
    return true;
  }
  return before_earlier != writes_before_.end() && before_earlier->second == before_later->second;
}

const std::vector<Node*>& Uses::readers(Value value) const {
  static const std::vector<Node*> none;
  const auto it = readers_.find(value);
  return it == readers_.end() ? none : it->second;
}

bool Uses::PrivateTo(Value value, const Node* reader) const {
  const std::vector<Node*>& all = readers(value);
  return all.size() == 1 && all[0] == reader && !fetched_.contains(value) &&
         !waited_for_.contains(value.node) && value.node->control_inputs.empty() &&
         SeeTheSameVariables(value.node, reader);
}

void Rewriter::Replace(const std::vector<const Node*>& nodes, const Node* at,
                       Replacement replacement) {
  for (const Node* node : nodes) {
    LS_CHECK(taken_.insert(node).second);
  }
  LS_CHECK(Takes(at));
  replacements_.emplace(at, std::move(replacement));
}

Result<SpecializedGraph> Rewriter::Apply(const SpecializedGraph& graph) const {
  Copier copier(*graph.graph);
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.graph->TopologicalOrder());
  for (const Node* node : order) {
    const auto replacement = replacements_.find(node);
    if (replacement != replacements_.end()) {
      LS_TRY(copier.Replace(*node, replacement->second));
    } else if (!Takes(node)) {
      LS_TRY(copier.Copy(*node));
    }
  }
  SpecializedGraph result;
  for (const Value& feed : graph.feeds) {
    result.feeds.push_back(feed.valid() ? copier.Map(feed) : Value{});
  }
  for (const Value& fetch : graph.fetches) {
    result.fetches.push_back(copier.Map(fetch));
  }
  for (const Node* target : graph.targets) {
    result.targets.push_back(copier.MapNode(target));
  }
  result.graph = copier.Take();
  return result;
}

}  // namespace lockstep::pass
