#include "lockstep/pass/serialize_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lockstep/base/quote.h"
#include "lockstep/op/transfer.h"
#include "lockstep/pass/device_set.h"

namespace lockstep::pass {
namespace {

constexpr std::string_view kPartOps[] = {op::kSend, op::kRecv, op::kShapeOnly};

class PartReader {
 public:
  PartReader(const PartLimits& limits, std::string_view device)
      : limits_(limits), device_(device) {}

  Result<Part> Read(std::unique_ptr<Graph> graph);

 private:
  Status ReadCollection(const std::string& name, std::span<const Value> values);
  Status CheckNode(const Node& node);
  Status CheckTransfer(const Node& node);
  Status CheckFeeds() const;

  const PartLimits& limits_;
  const std::string_view device_;
  Part part_;
  std::set<int64_t> transfers_;
};

Status PartReader::ReadCollection(const std::string& name, std::span<const Value> values) {
  const bool is_feed = name == kFeedCollection;
  if (!is_feed && name != kFetchCollection) {
    return InvalidArgument(
        fmt::format("collection {}: a part has feeds and fetches only", Quoted(name)));
  }
  for (const Value& value : values) {
    // Output 0 of a node that has none stands for the node.
    if (value.node->outputs.empty() || value.node->op->name == op::kShapeOnly) {
      return InvalidArgument(
          fmt::format("collection {}: {} has no elements", Quoted(name), value.node->Describe()));
    }
    auto& positions = is_feed ? part_.feeds : part_.fetches;
    positions.push_back(static_cast<int>(positions.size()));
    (is_feed ? part_.graph.feeds : part_.graph.fetches).push_back(value);
  }
  return OkStatus();
}

Status PartReader::CheckTransfer(const Node& node) {
  const bool sends = node.op->name == op::kSend;
  const int64_t transfer = node.attrs.GetInt("transfer");
  if (transfer >= limits_.max_transfers) {
    return InvalidArgument(
        fmt::format("transfer {}, allowed are numbers below {}", transfer, limits_.max_transfers));
  }
  if (!transfers_.insert(transfer).second) {
    return AlreadyExists(fmt::format("transfer {} is there twice", transfer));
  }
  const std::string& other = node.attrs.GetString(sends ? "destination" : "source");
  LS_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(other));
  if (!name.full() || name.ToString() != other || other == device_) {
    return InvalidArgument(
        fmt::format("its other end is '{}', expected the full name of another device", other));
  }
  return OkStatus();
}

Status PartReader::CheckNode(const Node& node) {
  if (node.device != device_) {
    return InvalidArgument(fmt::format("it is on '{}', the part on {}", node.device, device_));
  }
  if (!node.colocate_with.empty()) {
    return InvalidArgument("it shares the device of another node; a part is placed already");
  }
  for (const Node* control : node.control_inputs) {
    if (control->id >= node.id) {
      return InvalidArgument(
          fmt::format("it stands before '{}', which is to run first", control->name));
    }
  }
  for (const TensorType& output : node.outputs) {
    if (!output.shape.fully_known()) {
      return InvalidArgument(fmt::format("its output {} has open dimensions", output.ToString()));
    }
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].node->op->name == op::kShapeOnly &&
        !node.op->UsesShapeOnly(static_cast<int>(i))) {
      return InvalidArgument(
          fmt::format("input {} ('{}') has a shape and no elements", i, node.inputs[i].name()));
    }
  }
  if (node.op->name == op::kSend || node.op->name == op::kRecv) {
    return CheckTransfer(node);
  }
  return OkStatus();
}

Status PartReader::CheckFeeds() const {
  std::unordered_map<const Node*, int> fed;
  for (const Value& feed : part_.graph.feeds) {
    ++fed[feed.node];
  }
  for (const auto& node : part_.graph.graph->nodes()) {
    const auto found = fed.find(node.get());
    const int times = found == fed.end() ? 0 : found->second;
    const int expected = node->op->name == "Placeholder" ? 1 : 0;
    if (times != expected) {
      return InvalidArgument(
          fmt::format("{} is fed {} times, expected {}", node->Describe(), times, expected));
    }
  }
  return OkStatus();
}

Result<Part> PartReader::Read(std::unique_ptr<Graph> graph) {
  part_.device = device_;
  part_.graph.graph = std::move(graph);
  for (const auto& [name, values] : part_.graph.graph->collections()) {
    LS_TRY(ReadCollection(name, values));
  }
  for (const auto& node : part_.graph.graph->nodes()) {
    const Status status = CheckNode(*node);
    if (!status.ok()) {
      return Status(status.code(), fmt::format("{}: {}", node->Describe(), status.message()));
    }
  }
  LS_TRY(CheckFeeds());
  return std::move(part_);
}

}  // namespace

Result<std::string> SerializePart(const Part& part) {
  return SerializeGraph(*part.graph.graph, kPartOps);
}

Result<Part> ParsePart(std::string_view bytes, const OpCatalog& catalog, const PartLimits& limits,
                       std::string_view device) {
  ParseLimits graph_limits = limits.graph;
  graph_limits.internal_ops = {std::begin(kPartOps), std::end(kPartOps)};
  LS_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseGraph(bytes, catalog, graph_limits));
  return PartReader(limits, device).Read(std::move(graph));
}

}  // namespace lockstep::pass
