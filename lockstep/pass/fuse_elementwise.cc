#include <algorithm>
#include <unordered_map>

#include "lockstep/op/fused_elementwise.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/rewrite.h"

namespace lockstep::pass {
namespace {

using Group = std::vector<const Node*>;

bool MayFuse(const Node& node) {
  return node.control_inputs.empty() && op::IsFusible(node);
}

// For each element-wise node the tree of nodes that ends in it: itself behind the trees of those
// inputs that nothing else reads. Trees that were taken over by a later node are gone.
std::unordered_map<const Node*, Group> FindGroups(const std::vector<Node*>& order,
                                                  const Uses& uses) {
  constexpr size_t kMostNodes = 32;
  std::unordered_map<const Node*, Group> groups;
  for (const Node* node : order) {
    if (!MayFuse(*node)) {
      continue;
    }
    Group group;
    for (const Value& input : node->inputs) {
      const auto inner = groups.find(input.node);
      // A scalar expression inside would be computed once per element.
      if (inner == groups.end() || !uses.PrivateTo(input, node) ||
          !(input.shape() == node->outputs[0].shape) ||
          group.size() + inner->second.size() >= kMostNodes) {
        continue;
      }
      group.insert(group.end(), inner->second.begin(), inner->second.end());
      groups.erase(inner);
    }
    group.push_back(node);
    groups.emplace(node, std::move(group));
  }
  return groups;
}

}  // namespace

Result<SpecializedGraph> FuseElementwise(SpecializedGraph graph) {
  const Uses uses(graph);
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.graph->TopologicalOrder());
  Rewriter rewriter;
  for (auto& [last, group] : FindGroups(order, uses)) {
    if (group.size() < 2) {
      continue;
    }
    Result<op::ElementwiseChain> chain = op::MakeElementwiseChain(group);
    if (!chain.ok()) {
      continue;  // too many inputs for one kernel: they run one by one
    }
    Replacement fused;
    fused.op = "FusedElementwise";
    fused.inputs = chain->inputs;
    fused.attrs = {{"program", chain->program}};
    fused.outputs = {Value{const_cast<Node*>(last), 0}};
    rewriter.Replace(group, last, std::move(fused));
  }
  if (rewriter.empty()) {
    return graph;
  }
  return rewriter.Apply(graph);
}

}  // namespace lockstep::pass
