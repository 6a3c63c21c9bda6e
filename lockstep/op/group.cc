#include "lockstep/op/group.h"

#include <algorithm>

#include "lockstep/graph/op_def.h"

namespace lockstep::op {
namespace {

Status Infer(InferContext&) {
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest&) {
  return Kernel{};
}

Status Reference(const ReferenceContext&) {
  return OkStatus();
}

}  // namespace

OpDef NoOpDef() {
  return {.name = "NoOp",
          .summary = "nothing; runs after its control inputs",
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .stateful = true};
}

Node* Group(BuildContext ctx, const std::vector<Value>& values, std::string_view name) {
  std::vector<Node*> nodes;
  for (const Value& value : values) {
    nodes.push_back(value.node);
  }
  return Group(ctx, nodes, name);
}

Node* Group(BuildContext ctx, const std::vector<Node*>& nodes, std::string_view name) {
  if (std::find(nodes.begin(), nodes.end(), nullptr) != nodes.end()) {
    ctx.Fail(InvalidArgument("a member of a group is not a node of the graph"));
    return nullptr;
  }
  Node* group = ctx.AddNode("NoOp", {}, {}, name.empty() ? "Group" : name);
  if (group != nullptr) {
    for (Node* node : nodes) {
      ctx.graph().AddControlEdge(node, group);
    }
  }
  return group;
}

}  // namespace lockstep::op
