#include "lockstep/graph/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/device_name.h"

namespace lockstep {

void Builder::Fail(Status status, SourceLocation where) {
  if (status_.ok()) {
    if (where.line != 0 && caller_.line != 0) {
      where = caller_;
    }
    status_ = where.line == 0 ? std::move(status)
                              : status.With(fmt::format("{}:{}", where.file, where.line));
  }
}

std::string Builder::Scoped(std::string_view name) const {
  return name_scope_.empty() ? std::string(name) : fmt::format("{}/{}", name_scope_, name);
}

Node* Builder::Add(std::string_view op, std::vector<Value> inputs, AttrMap attrs,
                   std::string_view name, SourceLocation where) {
  if (!status_.ok()) {
    return nullptr;
  }
  const auto invalid =
      std::find_if(inputs.begin(), inputs.end(), [](const Value& v) { return !v.valid(); });
  if (invalid != inputs.end()) {
    Fail(InvalidArgument(fmt::format("op {}: input {} is not a value of the graph", op,
                                     invalid - inputs.begin())),
         where);
    return nullptr;
  }
  NodeSpec spec;
  spec.name = graph_.UniqueName(Scoped(name.empty() ? op : name));
  spec.op = op;
  spec.inputs = std::move(inputs);
  spec.control_inputs = controls_;
  spec.attrs = std::move(attrs);
  const SourceLocation origin = caller_.line != 0 ? caller_ : where;
  spec.file = origin.file;
  spec.line = origin.line;
  if (Status status = PlaceNode(spec); !status.ok()) {
    Fail(status.With(fmt::format("op {} '{}'", op, spec.name)), where);
    return nullptr;
  }
  Result<Node*> node = graph_.AddNode(std::move(spec));
  if (!node.ok()) {
    // The message already names the line.
    Fail(node.status(), {});
    return nullptr;
  }
  return *node;
}

Status Builder::PlaceNode(NodeSpec& spec) const {
  const OpDef* op = graph_.catalog().Find(spec.op);
  for (size_t i = 0; op != nullptr && i < spec.inputs.size(); ++i) {
    if (op->Writes(static_cast<int>(i))) {
      spec.device = spec.inputs[i].node->device;
      return OkStatus();
    }
  }
  DeviceName device;
  for (auto rule = device_rules_.rbegin(); rule != device_rules_.rend(); ++rule) {
    if (rule->node != nullptr) {
      LS_ASSIGN_OR_RETURN(const DeviceName shared, DeviceName::Parse(rule->node->device));
      device = shared.MergedWith(device);
      spec.colocate_with =
          rule->node->colocate_with.empty() ? rule->node->name : rule->node->colocate_with;
      break;
    }
    if (rule->function != nullptr) {
      spec.device = device.ToString();
      LS_ASSIGN_OR_RETURN(const std::string chosen, rule->function(spec));
      LS_ASSIGN_OR_RETURN(device, DeviceName::Parse(chosen));
    } else {
      LS_ASSIGN_OR_RETURN(const DeviceName outer, DeviceName::Parse(rule->name));
      device = outer.MergedWith(device);
    }
  }
  spec.device = device.ToString();
  return OkStatus();
}

Value BuildContext::Add(std::string_view op, std::vector<Value> inputs, AttrMap attrs,
                        std::string_view name) const {
  Node* node = AddNode(op, std::move(inputs), std::move(attrs), name);
  return node == nullptr ? Value{} : Value{node, 0};
}

CallerScope::CallerScope(Builder& builder, SourceLocation where)
    : builder_(builder), saved_(builder.caller_) {
  if (builder.caller_.line == 0) {
    builder.caller_ = where;
  }
}

CallerScope::~CallerScope() {
  builder_.caller_ = saved_;
}

NameScope::NameScope(Builder& builder, std::string_view name)
    : builder_(builder), saved_(builder.name_scope_) {
  // A scope's name is taken as soon as any node lies in it.
  const auto taken = [&](const std::string& scope) {
    const std::string prefix = scope + "/";
    const auto nodes = builder.graph().nodes();
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node->name == scope || node->name.compare(0, prefix.size(), prefix) == 0;
    });
  };
  const std::string wanted = builder.Scoped(name);
  std::string scope = wanted;
  for (int suffix = 1; taken(scope); ++suffix) {
    scope = fmt::format("{}_{}", wanted, suffix);
  }
  builder_.name_scope_ = std::move(scope);
}

NameScope::~NameScope() {
  builder_.name_scope_ = std::move(saved_);
}

DeviceScope::DeviceScope(Builder& builder, std::string_view device, SourceLocation where)
    : builder_(builder), saved_count_(builder.device_rules_.size()) {
  const Status status = DeviceName::Parse(device).status();
  if (!status.ok()) {
    builder.Fail(status, where);
    return;
  }
  builder_.device_rules_.push_back({std::string(device), nullptr, nullptr});
}

DeviceScope::DeviceScope(Builder& builder, DeviceFunction function)
    : builder_(builder), saved_count_(builder.device_rules_.size()) {
  if (function != nullptr) {
    builder_.device_rules_.push_back({{}, std::move(function), nullptr});
  }
}

DeviceScope::~DeviceScope() {
  builder_.device_rules_.resize(saved_count_);
}

ColocationScope::ColocationScope(Builder& builder, Value with)
    : builder_(builder), saved_count_(builder.device_rules_.size()) {
  if (with.valid()) {
    builder_.device_rules_.push_back({{}, nullptr, with.node});
  }
}

ColocationScope::~ColocationScope() {
  builder_.device_rules_.resize(saved_count_);
}

ControlScope::ControlScope(Builder& builder, std::vector<Value> controls)
    : builder_(builder), saved_count_(builder.controls_.size()) {
  for (const Value& control : controls) {
    if (control.valid()) {
      builder_.controls_.push_back(control.node);
    }
  }
}

ControlScope::~ControlScope() {
  builder_.controls_.resize(saved_count_);
}

}  // namespace lockstep
