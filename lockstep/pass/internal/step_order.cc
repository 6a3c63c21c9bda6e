#include "lockstep/pass/internal/step_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "lockstep/pass/place.h"

namespace lockstep::pass {
namespace {

// An input of which only the shape is used need not have run.
std::vector<std::vector<int>> Successors(const Graph& graph) {
  std::vector<std::vector<int>> successors(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (!node->op->UsesShapeOnly(static_cast<int>(i))) {
        successors[static_cast<size_t>(node->inputs[i].node->id)].push_back(node->id);
      }
    }
    for (const Node* control : node->control_inputs) {
      successors[static_cast<size_t>(control->id)].push_back(node->id);
    }
  }
  return successors;
}

std::vector<bool> Followers(const std::vector<std::vector<int>>& successors, int start) {
  std::vector<bool> follows(successors.size(), false);
  std::vector<int> stack = {start};
  follows[static_cast<size_t>(start)] = true;
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    for (const int next : successors[at]) {
      if (!follows[static_cast<size_t>(next)]) {
        follows[static_cast<size_t>(next)] = true;
        stack.push_back(next);
      }
    }
  }
  return follows;
}

// Smaller runs first among what is ready: what there is before the step, then updates, which free
// their gradients.
auto Priority(const Node& node) {
  const bool is_source =
      node.op->name == "Variable" || node.op->name == "Const" || node.op->name == "Placeholder";
  return std::make_tuple(!is_source, !node.op->writes_variables(), node.id);
}

}  // namespace

void StepOrder::FindWriters(const Graph& graph) {
  const std::vector<std::vector<int>> successors = Successors(graph);
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->op->Writes(static_cast<int>(i))) {
        writers_[VariableOf(node->inputs[i])].push_back(
            {node.get(), Followers(successors, node->id)});
      }
    }
  }
}

std::vector<std::vector<int>> StepOrder::VariableEdges(const Graph& graph) const {
  std::vector<std::vector<int>> before(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Node* variable = VariableOf(node->inputs[i]);
      const auto writers = writers_.find(variable);
      if (variable == nullptr || writers == writers_.end() ||
          node->op->UsesShapeOnly(static_cast<int>(i))) {
        continue;
      }
      const bool writes = node->op->Writes(static_cast<int>(i));
      for (const Writer& writer : writers->second) {
        const bool follows = writer.followers[static_cast<size_t>(node->id)];
        if (!follows && (!writes || node->id < writer.node->id)) {
          before[static_cast<size_t>(writer.node->id)].push_back(node->id);
        }
      }
    }
  }
  return before;
}

Result<StepOrder> StepOrder::Create(const Graph& graph) {
  // Cycles of the graph itself have a message of their own.
  LS_TRY(graph.TopologicalOrder().status());
  StepOrder order;
  order.FindWriters(graph);
  std::vector<std::vector<int>> successors = Successors(graph);
  const std::vector<std::vector<int>> edges = order.VariableEdges(graph);
  for (size_t after = 0; after < edges.size(); ++after) {
    for (const int before : edges[after]) {
      successors[static_cast<size_t>(before)].push_back(static_cast<int>(after));
    }
  }
  std::vector<int> waiting(graph.nodes().size(), 0);
  for (const auto& next : successors) {
    for (const int node : next) {
      ++waiting[static_cast<size_t>(node)];
    }
  }
  const auto later = [](const Node* a, const Node* b) { return Priority(*a) > Priority(*b); };
  std::priority_queue<Node*, std::vector<Node*>, decltype(later)> ready(later);
  for (const auto& node : graph.nodes()) {
    if (waiting[static_cast<size_t>(node->id)] == 0) {
      ready.push(node.get());
    }
  }
  order.positions_.resize(graph.nodes().size());
  while (!ready.empty()) {
    Node* node = ready.top();
    ready.pop();
    order.positions_[static_cast<size_t>(node->id)] = static_cast<int>(order.nodes_.size());
    order.nodes_.push_back(node);
    for (const int next : successors[static_cast<size_t>(node->id)]) {
      if (--waiting[static_cast<size_t>(next)] == 0) {
        ready.push(graph.nodes()[static_cast<size_t>(next)].get());
      }
    }
  }
  if (order.nodes_.size() == graph.nodes().size()) {
    return order;
  }
  const auto stuck = std::find_if(graph.nodes().begin(), graph.nodes().end(), [&](const auto& n) {
    return waiting[static_cast<size_t>(n->id)] > 0;
  });
  return InvalidArgument(fmt::format(
      "{} and other ops each have to read a variable before another of them writes it: put a copy "
      "of one value in between",
      (*stuck)->Describe()));
}

std::vector<const Node*> StepOrder::WritesBefore(const Node& node, const Node& variable) const {
  std::vector<const Node*> writes;
  const auto writers = writers_.find(&variable);
  if (writers != writers_.end()) {
    for (const Writer& writer : writers->second) {
      if (writer.followers[static_cast<size_t>(node.id)]) {
        writes.push_back(writer.node);
      }
    }
  }
  std::sort(writes.begin(), writes.end(),
            [&](const Node* a, const Node* b) { return PositionOf(*a) < PositionOf(*b); });
  return writes;
}

}  // namespace lockstep::pass
