// Node: one op in a graph with its inputs, attributes and inferred output types. Value: one output
// of a node. Nodes are owned by their Graph and made by it (usually through Builder); pointers stay
// valid as long as the graph.
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/attr.h"
#include "lockstep/graph/source_location.h"

namespace lockstep {

struct Node;
struct OpDef;

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  // A variable: using it as an ordinary input reads it; only ops that say so write it.
  bool is_variable = false;

  // "float32 [?, 10]", with " variable" behind it for a variable.
  std::string ToString() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Output `index` of `node`. A default Value is invalid: what a builder returns after an error.
struct Value {
  Node* node = nullptr;
  int index = 0;

  bool valid() const { return node != nullptr; }

  const TensorType& type() const;
  DType dtype() const;
  const Shape& shape() const;

  // "conv1/Conv2D" for output 0, "name:1" and so on for the others.
  std::string name() const;

  friend bool operator==(const Value&, const Value&) = default;
};

struct ValueHash {
  size_t operator()(const Value& value) const {
    return std::hash<const void*>()(value.node) * 31 + static_cast<size_t>(value.index);
  }
};

struct Node {
  int id = 0;  // position in Graph::nodes()
  std::string name;
  const OpDef* op = nullptr;
  std::vector<Value> inputs;
  std::vector<Node*> control_inputs;
  AttrMap attrs;
  std::vector<TensorType> outputs;
  // Canonical, possibly partial device name; empty: anywhere.
  std::string device;
  // Name of the node whose device this one shares; empty: none.
  std::string colocate_with;
  // File and line of the program that made the node; empty if unknown.
  std::string file;
  int line = 0;

  Value output(int index = 0) { return {this, index}; }

  // "op Conv2D 'conv1/Conv2D' (model.cc:12)".
  std::string Describe() const;
};

}  // namespace lockstep
