#include "lockstep/graph/internal/serialize_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/graph/device_name.h"
#include "lockstep/graph/graph.pb.h"
#include "lockstep/graph/internal/serialize_attr.h"
#include "lockstep/graph/internal/serialize_wire.h"
#include "lockstep/graph/internal/topological_sort.h"
#include "lockstep/graph/op_def.h"

namespace lockstep::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Fields of one node or collection besides its inputs or members: no op has nearly as many
// attributes.
constexpr size_t kMaxFields = 1024;
constexpr size_t kMaxCollections = 1024;

// "field 9 of AttrDef": the first field in `message` or below that the format does not have.
std::optional<std::string> FindUnknownField(const Message& message) {
  const auto& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return fmt::format("field {} of {}", unknown.field(0).number(),
                       message.GetDescriptor()->name());
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& inner = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                  : reflection.GetMessage(message, field);
      if (auto found = FindUnknownField(inner)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

// The whole part as a message without unknown fields.
Status ParseMessage(std::string_view bytes, Message& message) {
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("malformed or cut off");
  }
  if (const auto unknown = FindUnknownField(message)) {
    return InvalidArgument(fmt::format("unknown {}", *unknown));
  }
  return OkStatus();
}

Status CollectionError(std::string_view name, size_t offset, const Status& status) {
  return {status.code(),
          fmt::format("collection {} (byte {}): {}", Quoted(name), offset, status.message())};
}

}  // namespace

Result<std::unique_ptr<Graph>> GraphReader::Read(std::string_view bytes) {
  LS_TRY(Split(bytes));
  nodes_.reserve(node_parts_.size());
  for (const Part& part : node_parts_) {
    LS_TRY(ReadNode(part));
  }
  for (const Part& part : collection_parts_) {
    LS_TRY(ReadCollection(part));
  }
  LS_TRY(ResolveInputs());
  LS_ASSIGN_OR_RETURN(const std::vector<int> order, SortNodes());
  auto graph = std::make_unique<Graph>(catalog_);
  LS_TRY(MakeNodes(order, *graph));
  LS_TRY(MakeCollections(*graph));
  return graph;
}

Status GraphReader::Split(std::string_view bytes) {
  if (bytes.size() > limits_.max_bytes) {
    return ResourceExhausted(fmt::format("a graph of {} bytes, allowed are {} (max_bytes)",
                                         bytes.size(), limits_.max_bytes));
  }
  uint64_t version = 0;
  // Reported after the version, which may explain it.
  Status unknown;
  LS_TRY(ForEachWireField(bytes, 0, [&](const WireField& field) {
    const Part part = {field.offset, field.bytes,
                       static_cast<size_t>(field.bytes.data() - bytes.data())};
    if (field.number == proto::GraphDef::kVersionFieldNumber && !field.delimited) {
      version = field.value;
    } else if (field.number == proto::GraphDef::kNodesFieldNumber && field.delimited) {
      if (node_parts_.size() == limits_.max_nodes) {
        return ResourceExhausted(fmt::format("more than {} nodes (max_nodes)", limits_.max_nodes));
      }
      node_parts_.push_back(part);
    } else if (field.number == proto::GraphDef::kCollectionsFieldNumber && field.delimited) {
      if (collection_parts_.size() == kMaxCollections) {
        return ResourceExhausted(fmt::format("more than {} collections", kMaxCollections));
      }
      collection_parts_.push_back(part);
    } else if (unknown.ok()) {
      unknown = InvalidArgument(
          fmt::format("byte {}: unknown field {} of GraphDef", field.offset, field.number));
    }
    return OkStatus();
  }));
  if (version != kGraphFormatVersion) {
    return InvalidArgument(fmt::format("a graph of format version {}, this program reads {}",
                                       version, kGraphFormatVersion));
  }
  return unknown;
}

Status GraphReader::CountFields(const Part& part, uint32_t edges_field) {
  size_t fields = 0;
  return ForEachWireField(part.bytes, part.bytes_offset, [&](const WireField& field) {
    size_t& count = field.number == edges_field ? edges_ : fields;
    ++count;
    if (edges_ > limits_.max_edges) {
      return ResourceExhausted(fmt::format(
          "more than {} inputs and members of collections (max_edges)", limits_.max_edges));
    }
    return fields <= kMaxFields ? OkStatus()
                                : ResourceExhausted(fmt::format("more than {} fields", kMaxFields));
  });
}

Status GraphReader::NodeError(const NodeRecord& record, std::string_view field,
                              const Status& status) const {
  return {status.code(), fmt::format("node {} {} (byte {}){}{}: {}", &record - nodes_.data(),
                                     Quoted(record.spec.name), record.offset,
                                     field.empty() ? "" : ": ", field, status.message())};
}

Status GraphReader::CheckName(std::string_view name) const {
  LS_TRY(CheckText(name, limits_.max_name_bytes));
  return CheckNodeName(name);
}

Status GraphReader::CheckOp(std::string_view name) const {
  LS_TRY(CheckText(name, limits_.max_name_bytes));
  const OpDef* op = catalog_.Find(name);
  const auto& allowed = limits_.internal_ops;
  if (op != nullptr && op->internal &&
      std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
    return InvalidArgument(
        fmt::format("op {} is internal: made by passes and not allowed in a file", name));
  }
  return OkStatus();
}

Result<GraphReader::InputRef> GraphReader::ParseInput(std::string_view text,
                                                      bool may_be_control) const {
  InputRef ref;
  std::string_view name = text;
  if (!name.empty() && name[0] == '^') {
    if (!may_be_control) {
      return InvalidArgument(fmt::format("{} is no value", Quoted(text)));
    }
    ref.is_control = true;
    name.remove_prefix(1);
  } else if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const char* end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, ref.output);
    if (digits.empty() || error != std::errc() || parsed != end || ref.output < 0) {
      return InvalidArgument(
          fmt::format("{} is malformed, expected NAME, NAME:OUTPUT or ^NAME", Quoted(text)));
    }
    name = name.substr(0, colon);
  }
  LS_TRY(CheckName(name));
  ref.name = name;
  return ref;
}

Status GraphReader::ReadNode(const Part& part) {
  NodeRecord& record = nodes_.emplace_back();
  record.offset = part.offset;
  const auto fail = [&](std::string_view field, const Status& status) {
    return NodeError(record, field, status);
  };
  proto::NodeDef message;
  if (const Status status = CountFields(part, proto::NodeDef::kInputsFieldNumber); !status.ok()) {
    return fail("", status);
  }
  if (const Status status = ParseMessage(part.bytes, message); !status.ok()) {
    return fail("", status);
  }
  NodeSpec& spec = record.spec;
  spec.name = message.name();
  if (const Status status = CheckName(spec.name); !status.ok()) {
    return fail("name", status);
  }
  const auto [twin, inserted] = by_name_.emplace(spec.name, static_cast<int>(nodes_.size()) - 1);
  if (!inserted) {
    return fail("name", AlreadyExists(fmt::format("node {} has the same name", twin->second)));
  }
  spec.op = message.op();
  if (const Status status = CheckOp(spec.op); !status.ok()) {
    return fail("op", status);
  }
  Status device_status = CheckText(message.device(), limits_.max_name_bytes);
  if (device_status.ok()) {
    const Result<DeviceName> device = DeviceName::Parse(message.device());
    device_status = device.status();
    spec.device = device.ok() ? device->ToString() : "";
  }
  if (!device_status.ok()) {
    return fail("device", device_status);
  }
  if (!message.colocate_with().empty()) {
    if (const Status status = CheckName(message.colocate_with()); !status.ok()) {
      return fail("colocate_with", status);
    }
    spec.colocate_with = message.colocate_with();
  }
  if (const Status status = CheckText(message.file(), limits_.max_string_bytes); !status.ok()) {
    return fail("file", status);
  }
  spec.file = message.file();
  if (message.line() < 0 || message.line() > std::numeric_limits<int>::max()) {
    return fail("line", InvalidArgument(fmt::format("{}, allowed are 0 to {}", message.line(),
                                                    std::numeric_limits<int>::max())));
  }
  spec.line = static_cast<int>(message.line());
  LS_TRY(ReadInputs(message, record));
  return ReadAttrs(message, record);
}

Status GraphReader::ReadInputs(const proto::NodeDef& message, NodeRecord& record) const {
  for (int i = 0; i < message.inputs_size(); ++i) {
    Result<InputRef> ref = ParseInput(message.inputs(i), /*may_be_control=*/true);
    Status status = ref.status();
    if (ref.ok() && !ref->is_control && !record.inputs.empty() && record.inputs.back().is_control) {
      status = InvalidArgument("a value after a control input");
    }
    if (!status.ok()) {
      return NodeError(record, fmt::format("inputs[{}]", i), status);
    }
    record.inputs.push_back(std::move(ref).value());
  }
  return OkStatus();
}

Status GraphReader::ReadAttrs(const proto::NodeDef& message, NodeRecord& record) const {
  for (int i = 0; i < message.attrs_size(); ++i) {
    const proto::AttrDef& attr = message.attrs(i);
    const std::string field = fmt::format("attrs[{}]", i);
    if (const Status status = CheckText(attr.name(), limits_.max_name_bytes); !status.ok()) {
      return NodeError(record, field, status);
    }
    const std::string named = fmt::format("{} {}", field, Quoted(attr.name()));
    if (record.spec.attrs.Find(attr.name()) != nullptr) {
      return NodeError(record, named, AlreadyExists("the attribute is given twice"));
    }
    Result<AttrValue> value = AttrFromProto(attr.value(), limits_);
    if (!value.ok()) {
      return NodeError(record, named, value.status());
    }
    record.spec.attrs.Set(attr.name(), std::move(value).value());
  }
  return OkStatus();
}

Status GraphReader::ReadCollection(const Part& part) {
  CollectionRecord& record = collections_.emplace_back();
  record.offset = part.offset;
  const auto fail = [&](const Status& status) {
    return CollectionError(record.name, record.offset, status);
  };
  proto::CollectionDef message;
  if (const Status status = CountFields(part, proto::CollectionDef::kValuesFieldNumber);
      !status.ok()) {
    return fail(status);
  }
  if (const Status status = ParseMessage(part.bytes, message); !status.ok()) {
    return fail(status);
  }
  record.name = message.name();
  if (const Status status = CheckText(record.name, limits_.max_name_bytes); !status.ok()) {
    return fail(status);
  }
  if (record.name.empty() || message.values_size() == 0) {
    return fail(InvalidArgument(record.name.empty() ? "name: empty" : "values: none"));
  }
  const auto twin = std::find_if(collections_.begin(), collections_.end(),
                                 [&](const auto& other) { return other.name == record.name; });
  if (&*twin != &record) {
    return fail(AlreadyExists("the collection is given twice"));
  }
  for (int i = 0; i < message.values_size(); ++i) {
    Result<InputRef> ref = ParseInput(message.values(i), /*may_be_control=*/false);
    if (!ref.ok()) {
      return fail({ref.status().code(), fmt::format("values[{}]: {}", i, ref.status().message())});
    }
    record.values.push_back(std::move(ref).value());
  }
  return OkStatus();
}

Status GraphReader::ResolveInputs() {
  for (NodeRecord& record : nodes_) {
    const std::string& colocate_with = record.spec.colocate_with;
    if (!colocate_with.empty() && !by_name_.contains(colocate_with)) {
      return NodeError(record, "colocate_with",
                       InvalidArgument(fmt::format("there is no node {}", Quoted(colocate_with))));
    }
    record.producers.reserve(record.inputs.size());
    for (const InputRef& ref : record.inputs) {
      const auto found = by_name_.find(ref.name);
      if (found == by_name_.end()) {
        return NodeError(record, fmt::format("inputs[{}]", record.producers.size()),
                         InvalidArgument(fmt::format("there is no node {}", Quoted(ref.name))));
      }
      record.producers.push_back(found->second);
    }
  }
  return OkStatus();
}

Result<std::vector<int>> GraphReader::SortNodes() const {
  std::vector<std::vector<int>> predecessors;
  predecessors.reserve(nodes_.size());
  for (const NodeRecord& record : nodes_) {
    predecessors.push_back(record.producers);
  }
  const TopologicalSort all = SortTopologically(predecessors);
  if (!all.cycle.empty()) {
    const auto name = [&](int i) -> std::string_view {
      return nodes_[static_cast<size_t>(i)].spec.name;
    };
    return NodeError(
        nodes_[static_cast<size_t>(all.cycle.front())], "inputs",
        InvalidArgument(fmt::format("the graph has a cycle: {}", DescribeCycle(all.cycle, name))));
  }
  // Control inputs can be added to nodes that exist, so they need not change the order.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto& inputs = nodes_[i].inputs;
    const auto control = std::find_if(inputs.begin(), inputs.end(),
                                      [](const InputRef& ref) { return ref.is_control; });
    predecessors[i].resize(static_cast<size_t>(control - inputs.begin()));
  }
  return SortTopologically(predecessors).order;
}

Status GraphReader::MakeNodes(const std::vector<int>& order, Graph& graph) {
  for (const int i : order) {
    NodeRecord& record = nodes_[static_cast<size_t>(i)];
    NodeSpec spec = record.spec;
    for (size_t k = 0; k < record.inputs.size() && !record.inputs[k].is_control; ++k) {
      Node* producer = nodes_[static_cast<size_t>(record.producers[k])].node;
      spec.inputs.push_back({producer, record.inputs[k].output});
    }
    Result<Node*> node = graph.AddNode(std::move(spec));
    if (!node.ok()) {
      return NodeError(record, "", node.status());
    }
    record.node = *node;
  }
  for (NodeRecord& record : nodes_) {
    for (size_t k = record.node->inputs.size(); k < record.inputs.size(); ++k) {
      record.node->control_inputs.push_back(nodes_[static_cast<size_t>(record.producers[k])].node);
    }
  }
  return OkStatus();
}

Status GraphReader::MakeCollections(Graph& graph) const {
  for (const CollectionRecord& record : collections_) {
    for (const InputRef& ref : record.values) {
      Node* node = graph.FindNode(ref.name);
      const auto fail = [&](std::string message) {
        return CollectionError(record.name, record.offset, InvalidArgument(std::move(message)));
      };
      if (node == nullptr) {
        return fail(fmt::format("there is no node {}", Quoted(ref.name)));
      }
      // Output 0 of a node that has none stands for the node.
      if (ref.output > 0 && static_cast<size_t>(ref.output) >= node->outputs.size()) {
        return fail(fmt::format("node {} has {}, there is no output {}", Quoted(ref.name),
                                Counted(node->outputs.size(), "output"), ref.output));
      }
      graph.AddToCollection(record.name, {node, ref.output});
    }
  }
  return OkStatus();
}

}  // namespace lockstep::internal

namespace lockstep {

Result<std::unique_ptr<Graph>> ParseGraph(std::string_view bytes, const OpCatalog& catalog,
                                          const ParseLimits& limits) {
  return internal::GraphReader(catalog, limits).Read(bytes);
}

}  // namespace lockstep
