// Builder: adds nodes to a graph under name, device and control scopes, and remembers the first
// error, so that model code stays free of checks: after an error every further value is invalid,
// and status() names the op and the caller's line. Not thread-safe.
//
//   Graph graph(op::Catalog());
//   Builder b(graph);
//   NameScope scope(b, "dense");
//   Value y = op::Relu(b, op::MatMul(b, x, w));
//   LS_TRY(b.status());
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep {

// Chooses the device of a node that is about to be made. `node.device` is what the scopes inside of
// the function's own say; the result, a full or partial name, takes its place, and outer scopes
// fill in what it leaves open.
using DeviceFunction = std::function<Result<std::string>(const NodeSpec& node)>;

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Graph& graph() const { return graph_; }

  // The first error.
  const Status& status() const { return status_; }

  // Records an error found by a front-end; later ones are dropped.
  void Fail(Status status, SourceLocation where);

  // Adds a frame of context to the recorded error, if there is one.
  void AddContext(std::string frame) { status_ = status_.With(std::move(frame)); }

  // Adds a node and returns it, or null after an error. `name` is made unique within the scope;
  // empty: the op's name.
  Node* Add(std::string_view op, std::vector<Value> inputs, AttrMap attrs, std::string_view name,
            SourceLocation where);

  // "scope/name", without making it unique.
  std::string Scoped(std::string_view name) const;

 private:
  friend class CallerScope;
  friend class NameScope;
  friend class DeviceScope;
  friend class ColocationScope;
  friend class ControlScope;

  // One scope that places nodes: by a name, by a function, or where another node is.
  struct DeviceRule {
    std::string name;
    DeviceFunction function;
    const Node* node = nullptr;
  };

  // Fills in device and colocate_with from the scopes, innermost first.
  Status PlaceNode(NodeSpec& spec) const;

  Graph& graph_;
  Status status_;
  std::string name_scope_;
  std::vector<DeviceRule> device_rules_;
  std::vector<Node*> controls_;
  // What nodes and errors are attributed to, instead of the line that makes them; line 0: nothing.
  SourceLocation caller_ = {};
};

// What every front-end takes first: the builder and, by the implicit conversion, the caller's line.
// A front-end that calls others passes it on, so that errors name the user's line.
class BuildContext {
 public:
  BuildContext(Builder& builder,  // NOLINT(google-explicit-constructor)
               SourceLocation where = SourceLocation::Current())
      : builder_(builder), where_(where) {}

  Builder& builder() const { return builder_; }

  Graph& graph() const { return builder_.graph(); }

  SourceLocation where() const { return where_; }

  // Adds a node; returns its first output (the node must have one), invalid after an error.
  Value Add(std::string_view op, std::vector<Value> inputs, AttrMap attrs = {},
            std::string_view name = {}) const;

  // Adds a node with any number of outputs; null after an error.
  Node* AddNode(std::string_view op, std::vector<Value> inputs, AttrMap attrs = {},
                std::string_view name = {}) const {
    return builder_.Add(op, std::move(inputs), std::move(attrs), name, where_);
  }

  // Records an error and returns an invalid value.
  Value Fail(Status status) const {
    builder_.Fail(std::move(status), where_);
    return {};
  }

 private:
  Builder& builder_;
  SourceLocation where_;
};

// Nodes and errors made while it lives are attributed to `where`: the ops of a layer to the line
// that called the layer. The outermost scope wins.
class CallerScope {
 public:
  CallerScope(Builder& builder, SourceLocation where);
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;
  ~CallerScope();

 private:
  Builder& builder_;
  const SourceLocation saved_;
};

// Names of nodes made while it lives start with "outer/name/". A name that was used before gets a
// suffix.
class NameScope {
 public:
  NameScope(Builder& builder, std::string_view name);
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  ~NameScope();

 private:
  Builder& builder_;
  std::string saved_;
};

// Nodes made while it lives are placed on `device`, merged over the outer scope: parts that it
// names replace those of the outer one. A malformed name, and an error of the function, is recorded
// as the builder's error. An op that writes a variable goes where the variable is, whatever the
// scopes say. A null function changes nothing.
class DeviceScope {
 public:
  DeviceScope(Builder& builder, std::string_view device,
              SourceLocation where = SourceLocation::Current());
  DeviceScope(Builder& builder, DeviceFunction function);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  Builder& builder_;
  size_t saved_count_;
};

// Nodes made while it lives share the device of the node of `with`, whatever outer scopes say.
class ColocationScope {
 public:
  ColocationScope(Builder& builder, Value with);
  ColocationScope(const ColocationScope&) = delete;
  ColocationScope& operator=(const ColocationScope&) = delete;
  ~ColocationScope();

 private:
  Builder& builder_;
  size_t saved_count_;
};

// Nodes made while it lives start only when `controls` have finished.
class ControlScope {
 public:
  ControlScope(Builder& builder, std::vector<Value> controls);
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;
  ~ControlScope();

 private:
  Builder& builder_;
  size_t saved_count_;
};

}  // namespace lockstep
