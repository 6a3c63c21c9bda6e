// StepOrder: one order of a specialised graph's nodes in which a step may run, and which writes of
// variables each reader follows by the program.
//
// A node comes after its inputs, except those of which it uses only the shape, and after its
// control inputs. Besides, the rules are those of plans: whoever uses a variable and does not
// follow one of its writers (by data or control) comes before that writer; writers that nothing
// orders keep the order of creation.
#pragma once

#include <unordered_map>
#include <vector>

#include "lockstep/pass/specialize.h"

namespace lockstep::pass {

class StepOrder {
 public:
  // Errors: variables that are exchanged with each other without a copy in between.
  static Result<StepOrder> Create(const Graph& graph);

  const std::vector<Node*>& nodes() const { return nodes_; }

  // Position of a node in nodes().
  int PositionOf(const Node& node) const { return positions_[static_cast<size_t>(node.id)]; }

  // The writers of `variable` that `node` follows, in order.
  std::vector<const Node*> WritesBefore(const Node& node, const Node& variable) const;

 private:
  struct Writer {
    const Node* node;
    // By node id: follows the writer, itself included.
    std::vector<bool> followers;
  };

  void FindWriters(const Graph& graph);
  // For each node those that must come before it, besides its inputs.
  std::vector<std::vector<int>> VariableEdges(const Graph& graph) const;

  std::vector<Node*> nodes_;
  std::vector<int> positions_;
  // By variable, in order of creation.
  std::unordered_map<const Node*, std::vector<Writer>> writers_;
};

}  // namespace lockstep::pass
