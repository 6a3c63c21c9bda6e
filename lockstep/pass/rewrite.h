// Rewriting of a specialised graph: replaces groups of nodes by one node each and copies the rest.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/pass/specialize.h"

namespace lockstep::pass {

// Who uses the values and nodes of a specialised graph (whose nodes come after what they read).
class Uses {
 public:
  explicit Uses(const SpecializedGraph& graph);

  // Nodes that read the value, once per input.
  const std::vector<Node*>& readers(Value value) const;

  // The value has one reader and is not fetched, nothing waits for its node by control, and its
  // node sees the variables as its reader does: what makes it may become a part of its reader.
  bool PrivateTo(Value value, const Node* reader) const;

  // Both nodes follow the same writes of variables, so that what one of them reads the other may
  // read instead. In a part of a placed graph, whose order is fixed because other parts wait for
  // it, no write stands between them either. `earlier` must lead to `later`.
  bool SeeTheSameVariables(const Node* earlier, const Node* later) const;

 private:
  void FindWritesBefore(const Graph& graph);
  void CountWrites(const Graph& graph);

  std::unordered_map<Value, std::vector<Node*>, ValueHash> readers_;
  // For each node that follows a write of a variable: the numbers of those writes.
  std::unordered_map<const Node*, std::vector<bool>> writes_before_;
  // In a part of a placed graph, by node id: the writers of variables up to there. Empty otherwise.
  std::vector<int> writes_up_to_;
  std::unordered_set<Value, ValueHash> fetched_;
  std::unordered_set<const Node*> waited_for_;
};

// The node that takes the place of a group.
struct Replacement {
  std::string op = {};
  // Values of the old graph, all made before the node that the replacement stands at.
  std::vector<Value> inputs = {};
  AttrMap attrs = {};
  // Old values that the outputs of the new node take the place of, in order.
  std::vector<Value> outputs = {};
};

class Rewriter {
 public:
  // The group `nodes` is replaced, at the position of `at`, one of them. A node can be in one group
  // only.
  void Replace(const std::vector<const Node*>& nodes, const Node* at, Replacement replacement);

  bool Takes(const Node* node) const { return taken_.contains(node); }

  bool empty() const { return replacements_.empty(); }

  // The rewritten graph.
  Result<SpecializedGraph> Apply(const SpecializedGraph& graph) const;

 private:
  std::unordered_set<const Node*> taken_;
  std::unordered_map<const Node*, Replacement> replacements_;
};

}  // namespace lockstep::pass
