// Graph: a set of typed nodes. Built through Builder, read from a GraphDef, or rewritten by passes.
// Not thread-safe while it is being changed; const use is.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/node.h"
#include "lockstep/graph/op_def.h"

namespace lockstep {

// What a new node is made from.
struct NodeSpec {
  std::string name = {};
  std::string op = {};
  std::vector<Value> inputs = {};
  std::vector<Node*> control_inputs = {};
  AttrMap attrs = {};
  std::string device = {};
  std::string colocate_with = {};
  std::string file = {};
  int line = 0;
};

// Names of the collections that the system itself reads.
namespace collection {
inline constexpr std::string_view kVariables = "variables";
inline constexpr std::string_view kTrainableVariables = "trainable_variables";
// Assignments of initial values.
inline constexpr std::string_view kInitializers = "initializers";
// Updates that belong to a training step but not to the gradient: running statistics.
inline constexpr std::string_view kUpdateOps = "update_ops";
}  // namespace collection

class Graph {
 public:
  // The catalog must outlive the graph.
  explicit Graph(const OpCatalog& catalog) : catalog_(catalog) {}

  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const OpCatalog& catalog() const { return catalog_; }

  // Checks the name, the op, the attributes (filling in defaults) and the inputs, and infers the
  // outputs. Nothing changes on an error, which names op, node and line.
  Result<Node*> AddNode(NodeSpec spec);

  // `before` must have finished when `after` starts. May close a cycle, which TopologicalOrder
  // reports.
  void AddControlEdge(Node* before, Node* after);

  // In order of creation.
  std::span<const std::unique_ptr<Node>> nodes() const { return nodes_; }

  // Null if there is none.
  Node* FindNode(std::string_view name) const;

  // "name", "name:1".
  Result<Value> FindValue(std::string_view name) const;

  // A name that no node has: the wanted one, or with _1, _2... behind it.
  std::string UniqueName(std::string_view wanted) const;

  // Every node after its inputs and control inputs, otherwise in order of creation. A cycle is an
  // error that lists it.
  Result<std::vector<Node*>> TopologicalOrder() const;

  void AddToCollection(std::string_view collection, Value value);
  std::span<const Value> Collection(std::string_view collection) const;

  const std::map<std::string, std::vector<Value>, std::less<>>& collections() const {
    return collections_;
  }

 private:
  const OpCatalog& catalog_;
  std::vector<std::unique_ptr<Node>> nodes_;
  // Not hashed: names come from files, and nobody may choose names that collide.
  std::map<std::string, Node*, std::less<>> by_name_;
  std::map<std::string, std::vector<Value>, std::less<>> collections_;
};

// Node names: letters, digits, and _ . / - \ > with a letter, digit or dot first.
Status CheckNodeName(std::string_view name);

}  // namespace lockstep
