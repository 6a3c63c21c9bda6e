#include "lockstep/graph/serialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/quote.h"
#include "lockstep/graph/graph.pb.h"
#include "lockstep/graph/internal/serialize_attr.h"
#include "lockstep/graph/op_def.h"

namespace lockstep {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

Status NodeToProto(const Node& node, std::span<const std::string_view> internal_ops,
                   proto::NodeDef& message) {
  const auto fail = [&](std::string_view field, const Status& status) {
    return Status(status.code(), fmt::format("op {} {}, {}: {}", node.op->name, Quoted(node.name),
                                             field, status.message()));
  };
  if (node.op->internal &&
      std::find(internal_ops.begin(), internal_ops.end(), node.op->name) == internal_ops.end()) {
    return fail("op", InvalidArgument("it is internal: made by passes and not kept in files"));
  }
  if (const Status status = internal::CheckText(node.file, kNoLimit); !status.ok()) {
    return fail("file", status);
  }
  if (const Status status = internal::CheckText(node.device, kNoLimit); !status.ok()) {
    return fail("device", status);
  }
  message.set_name(node.name);
  message.set_op(std::string(node.op->name));
  for (const Value& input : node.inputs) {
    message.add_inputs(input.name());
  }
  for (const Node* control : node.control_inputs) {
    message.add_inputs("^" + control->name);
  }
  message.set_device(node.device);
  message.set_colocate_with(node.colocate_with);
  for (const auto& [name, value] : node.attrs) {
    proto::AttrDef& attr = *message.add_attrs();
    attr.set_name(name);
    if (const Status status = internal::AttrToProto(value, *attr.mutable_value()); !status.ok()) {
      return fail(fmt::format("attrs[{}]", name), status);
    }
  }
  message.set_file(node.file);
  message.set_line(node.line);
  return OkStatus();
}

}  // namespace

Result<std::string> SerializeGraph(const Graph& graph,
                                   std::span<const std::string_view> internal_ops) {
  proto::GraphDef message;
  message.set_version(kGraphFormatVersion);
  for (const auto& node : graph.nodes()) {
    LS_TRY(NodeToProto(*node, internal_ops, *message.add_nodes()));
  }
  for (const auto& [name, values] : graph.collections()) {
    if (const Status status = internal::CheckText(name, kNoLimit); !status.ok()) {
      return Status(status.code(),
                    fmt::format("collection {}: {}", Quoted(name), status.message()));
    }
    proto::CollectionDef& collection = *message.add_collections();
    collection.set_name(name);
    for (const Value& value : values) {
      collection.add_values(value.name());
    }
  }
  const size_t bytes = message.ByteSizeLong();
  if (bytes >= static_cast<size_t>(std::numeric_limits<int>::max())) {
    return ResourceExhausted(
        fmt::format("the graph takes {} bytes, the format allows less than 2 GiB", bytes));
  }
  return message.SerializeAsString();
}

}  // namespace lockstep
