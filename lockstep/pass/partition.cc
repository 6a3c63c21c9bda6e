#include "lockstep/pass/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "lockstep/op/transfer.h"
#include "lockstep/pass/internal/step_order.h"
#include "lockstep/pass/place.h"

namespace lockstep::pass {
namespace {

// Which transfers come before something. Shared between nodes, most of which agree with an input.
using TransferSet = std::shared_ptr<const std::vector<bool>>;

bool Contains(const TransferSet& set, size_t transfer) {
  return set != nullptr && transfer < set->size() && (*set)[transfer];
}

TransferSet Union(const TransferSet& a, const TransferSet& b) {
  if (a == nullptr || a == b) {
    return b;
  }
  if (b == nullptr) {
    return a;
  }
  auto both = std::make_shared<std::vector<bool>>(*a);
  both->resize(std::max(a->size(), b->size()));
  for (size_t i = 0; i < b->size(); ++i) {
    if ((*b)[i]) {
      (*both)[i] = true;
    }
  }
  return both;
}

TransferSet With(const TransferSet& set, size_t transfer) {
  auto more = set == nullptr ? std::make_shared<std::vector<bool>>()
                             : std::make_shared<std::vector<bool>>(*set);
  more->resize(std::max(more->size(), transfer + 1));
  (*more)[transfer] = true;
  return more;
}

class Partitioner {
 public:
  Partitioner(const SpecializedGraph& graph, const PartitionOptions& options, StepOrder order)
      : graph_(graph), options_(options), order_(std::move(order)) {}

  Result<PartitionedGraph> Run();

 private:
  // What crosses: a value, or, without one, the news that a node has run.
  struct Crossing {
    Value value;
    const Node* signal = nullptr;
    std::string destination;
    // Of the value's variable, in order: those that the consumers follow.
    std::vector<const Node*> writes;
    // The node behind which it is sent.
    const Node* anchor = nullptr;
    // What precedes it, known once it is sent.
    TransferSet before;
    Node* send = nullptr;
    Node* recv = nullptr;
  };

  using CrossingKey =
      std::tuple<const Node*, int, std::string, std::vector<const Node*>>;  // index -1: signal

  struct PartState {
    std::unique_ptr<Graph> graph;
    std::unordered_map<Value, Value, ValueHash> values;
    std::unordered_map<const Node*, Node*> nodes;
    std::vector<int> feeds;
    std::vector<Value> feed_values;
    std::vector<int> fetches;
    std::vector<Value> fetch_values;
  };

  bool IsFeed(const Node& node) const { return feeds_.contains(&node); }

  bool IsCopied(const Node& node) const {
    return IsFeed(node) ||
           (node.op->name == "Const" && node.control_inputs.empty() &&
            node.attrs.Get<Tensor>("value").bytes() <= options_.max_copied_const_bytes);
  }

  // Nothing runs there that could be waited for.
  static bool HasNoStep(const Node& node) {
    return node.op->name == "Placeholder" || node.op->name == "Const" ||
           node.op->name == "Variable";
  }

  Status CheckDevices() const;
  void DropJoins();
  void FindCrossings();
  void AddCrossing(const Node& consumer, const Value& value);
  void AddSignal(const Node& consumer, const Node& before);
  size_t NewCrossing(CrossingKey key, Crossing crossing);
  // The transfer by which a value or the news of a node comes to a consumer.
  std::optional<size_t> CrossingOf(const Node& consumer, const Value& value) const;
  std::optional<size_t> SignalOf(const Node& consumer, const Node& before) const;
  CrossingKey KeyOf(const Node& consumer, const Value& value) const;

  Status EmitNode(const Node& node);
  Status EmitSends(const Node& anchor);
  Status EmitSend(size_t index);
  Result<Node*> EmitRecv(size_t index);
  Result<Value> EmitShapeOnly(PartState& part, const Value& value, const std::string& device);
  Result<Value> MapInput(PartState& part, const Node& consumer, size_t input);
  // A copy of a node without inputs in a part.
  Result<Value> MapCopied(PartState& part, const Value& value, const std::string& device);
  Status EmitFetches();
  PartitionedGraph Finish();

  NodeSpec SpecOf(const Node& node, const std::string& device) const;
  std::string UniqueName(const Graph& part, const std::string& wanted) const;

  PartState& PartOf(const std::string& device) {
    PartState& part = parts_[device];
    if (part.graph == nullptr) {
      part.graph = std::make_unique<Graph>(graph_.graph->catalog());
    }
    return part;
  }

  const SpecializedGraph& graph_;
  const PartitionOptions& options_;
  const StepOrder order_;
  // Position in the signature.
  std::unordered_map<const Node*, int> feeds_;
  std::vector<bool> dropped_;
  std::vector<Crossing> crossings_;
  std::map<CrossingKey, size_t> by_key_;
  std::unordered_map<const Node*, std::vector<size_t>> sends_behind_;
  // A transfer of some value of a node, which is news of the node as well.
  std::map<std::pair<const Node*, std::string>, size_t> data_from_;
  std::vector<TransferSet> before_;
  std::map<std::string, PartState> parts_;
};

Status Partitioner::CheckDevices() const {
  for (const auto& node : graph_.graph->nodes()) {
    LS_ASSIGN_OR_RETURN(const DeviceName device, DeviceName::Parse(node->device));
    if (!device.full()) {
      return Internal(fmt::format("{} is placed on '{}', which is no full device name",
                                  node->Describe(), node->device));
    }
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->op->Writes(static_cast<int>(i)) && node->inputs[i].node->device != node->device) {
        return Internal(fmt::format("{} on {} writes a variable on {}", node->Describe(),
                                    node->device, node->inputs[i].node->device));
      }
    }
  }
  return OkStatus();
}

// Whoever runs the parts waits for all of them anyway.
void Partitioner::DropJoins() {
  std::vector<bool> used(graph_.graph->nodes().size(), false);
  dropped_.assign(used.size(), false);
  for (auto it = order_.nodes().rbegin(); it != order_.nodes().rend(); ++it) {
    const Node& node = **it;
    const auto id = static_cast<size_t>(node.id);
    if (node.op->name == "NoOp" && !used[id]) {
      dropped_[id] = true;
      continue;
    }
    for (const Value& input : node.inputs) {
      used[static_cast<size_t>(input.node->id)] = true;
    }
    for (const Node* control : node.control_inputs) {
      used[static_cast<size_t>(control->id)] = true;
    }
  }
}

Partitioner::CrossingKey Partitioner::KeyOf(const Node& consumer, const Value& value) const {
  const Node* variable = VariableOf(value);
  if (variable == nullptr) {
    return {value.node, value.index, consumer.device, {}};
  }
  return {variable, 0, consumer.device, order_.WritesBefore(consumer, *variable)};
}

size_t Partitioner::NewCrossing(CrossingKey key, Crossing crossing) {
  const size_t index = crossings_.size();
  sends_behind_[crossing.anchor].push_back(index);
  crossings_.push_back(std::move(crossing));
  by_key_.emplace(std::move(key), index);
  return index;
}

void Partitioner::AddCrossing(const Node& consumer, const Value& value) {
  CrossingKey key = KeyOf(consumer, value);
  if (by_key_.contains(key)) {
    return;
  }
  Crossing crossing;
  crossing.value = {const_cast<Node*>(std::get<0>(key)), std::get<1>(key)};
  crossing.destination = consumer.device;
  crossing.writes = std::get<3>(key);
  crossing.anchor = crossing.writes.empty() ? crossing.value.node : crossing.writes.back();
  const bool is_variable = value.type().is_variable;
  const size_t index = NewCrossing(std::move(key), std::move(crossing));
  if (!is_variable) {
    data_from_.try_emplace({value.node, consumer.device}, index);
  }
}

void Partitioner::AddSignal(const Node& consumer, const Node& before) {
  if (data_from_.contains({&before, consumer.device})) {
    return;
  }
  CrossingKey key{&before, -1, consumer.device, {}};
  if (by_key_.contains(key)) {
    return;
  }
  Crossing crossing;
  crossing.signal = &before;
  crossing.destination = consumer.device;
  crossing.anchor = &before;
  NewCrossing(std::move(key), std::move(crossing));
}

void Partitioner::FindCrossings() {
  for (const Node* node : order_.nodes()) {
    if (dropped_[static_cast<size_t>(node->id)]) {
      continue;
    }
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Value& input = node->inputs[i];
      if (input.node->device != node->device && !IsCopied(*input.node) &&
          !node->op->UsesShapeOnly(static_cast<int>(i))) {
        AddCrossing(*node, input);
      }
    }
  }
  for (const Node* node : order_.nodes()) {
    if (dropped_[static_cast<size_t>(node->id)]) {
      continue;
    }
    for (const Node* control : node->control_inputs) {
      if (control->device != node->device && !HasNoStep(*control)) {
        AddSignal(*node, *control);
      }
    }
  }
}

std::optional<size_t> Partitioner::CrossingOf(const Node& consumer, const Value& value) const {
  if (value.node->device == consumer.device || IsCopied(*value.node)) {
    return std::nullopt;
  }
  return by_key_.at(KeyOf(consumer, value));
}

std::optional<size_t> Partitioner::SignalOf(const Node& consumer, const Node& before) const {
  if (before.device == consumer.device || HasNoStep(before)) {
    return std::nullopt;
  }
  const auto data = data_from_.find({&before, consumer.device});
  return data != data_from_.end() ? data->second
                                  : by_key_.at(CrossingKey{&before, -1, consumer.device, {}});
}

NodeSpec Partitioner::SpecOf(const Node& node, const std::string& device) const {
  NodeSpec spec;
  spec.device = device;
  spec.file = node.file;
  spec.line = node.line;
  return spec;
}

// A name that neither the part nor the whole graph has, whose nodes keep theirs.
std::string Partitioner::UniqueName(const Graph& part, const std::string& wanted) const {
  std::string name = wanted;
  for (int suffix = 1; part.FindNode(name) != nullptr || graph_.graph->FindNode(name) != nullptr;
       ++suffix) {
    name = fmt::format("{}_{}", wanted, suffix);
  }
  return name;
}

Result<Value> Partitioner::MapCopied(PartState& part, const Value& value,
                                     const std::string& device) {
  const auto found = part.nodes.find(value.node);
  if (found != part.nodes.end()) {
    return Value{found->second, value.index};
  }
  const Node& node = *value.node;
  NodeSpec spec = SpecOf(node, device);
  spec.name = node.name;
  spec.op = node.op->name;
  spec.attrs = node.attrs;
  LS_ASSIGN_OR_RETURN(Node * copy, part.graph->AddNode(std::move(spec)));
  part.nodes.emplace(&node, copy);
  if (IsFeed(node)) {
    part.feeds.push_back(feeds_.at(&node));
    part.feed_values.push_back(copy->output());
  }
  return Value{copy, value.index};
}

Result<Value> Partitioner::EmitShapeOnly(PartState& part, const Value& value,
                                         const std::string& device) {
  const auto found = part.values.find(value);
  if (found != part.values.end()) {
    return found->second;
  }
  NodeSpec spec = SpecOf(*value.node, device);
  spec.name = UniqueName(*part.graph, fmt::format("{}/shape_{}", value.node->name, value.index));
  spec.op = op::kShapeOnly;
  spec.attrs = {{"dtype", value.dtype()}, {"shape", value.shape()}};
  LS_ASSIGN_OR_RETURN(Node * made, part.graph->AddNode(std::move(spec)));
  part.values.emplace(value, made->output());
  return made->output();
}

Result<Node*> Partitioner::EmitRecv(size_t index) {
  Crossing& crossing = crossings_[index];
  if (crossing.recv != nullptr) {
    return crossing.recv;
  }
  PartState& part = PartOf(crossing.destination);
  const Node& from = crossing.signal == nullptr ? *crossing.value.node : *crossing.signal;
  NodeSpec spec = SpecOf(from, crossing.destination);
  spec.name = UniqueName(*part.graph, fmt::format("{}/recv_{}", from.name, index));
  spec.op = op::kRecv;
  const TensorType type = crossing.signal == nullptr ? crossing.value.type()
                                                     : TensorType{DType::kUInt8, Shape{0}, false};
  spec.attrs = {{"transfer", static_cast<int64_t>(index)},
                {"source", from.device},
                {"dtype", type.dtype},
                {"shape", type.shape}};
  // What follows one of the part's sends by way of other parts has to follow it here as well.
  std::vector<size_t> sends;
  for (size_t other = 0; crossing.before != nullptr && other < crossing.before->size(); ++other) {
    if ((*crossing.before)[other] && crossings_[other].anchor->device == crossing.destination) {
      sends.push_back(other);
    }
  }
  for (const size_t send : sends) {
    const bool implied = std::any_of(sends.begin(), sends.end(), [&](size_t other) {
      return Contains(crossings_[other].before, send);
    });
    if (!implied) {
      spec.control_inputs.push_back(crossings_[send].send);
    }
  }
  LS_ASSIGN_OR_RETURN(crossing.recv, part.graph->AddNode(std::move(spec)));
  return crossing.recv;
}

Status Partitioner::EmitSend(size_t index) {
  Crossing& crossing = crossings_[index];
  const Node& from = crossing.signal == nullptr ? *crossing.value.node : *crossing.signal;
  PartState& part = PartOf(from.device);
  NodeSpec spec = SpecOf(from, from.device);
  spec.name = UniqueName(*part.graph, fmt::format("{}/send_{}", from.name, index));
  spec.op = op::kSend;
  spec.attrs = {{"transfer", static_cast<int64_t>(index)}, {"destination", crossing.destination}};
  crossing.before = before_[static_cast<size_t>(from.id)];
  if (crossing.signal == nullptr) {
    spec.inputs.push_back({part.nodes.at(&from), crossing.value.index});
  } else {
    spec.control_inputs.push_back(part.nodes.at(&from));
  }
  for (const Node* write : crossing.writes) {
    spec.control_inputs.push_back(part.nodes.at(write));
    crossing.before = Union(crossing.before, before_[static_cast<size_t>(write->id)]);
  }
  LS_ASSIGN_OR_RETURN(crossing.send, part.graph->AddNode(std::move(spec)));
  return OkStatus();
}

Status Partitioner::EmitSends(const Node& anchor) {
  const auto found = sends_behind_.find(&anchor);
  if (found != sends_behind_.end()) {
    for (const size_t index : found->second) {
      LS_TRY(EmitSend(index));
    }
  }
  return OkStatus();
}

Result<Value> Partitioner::MapInput(PartState& part, const Node& consumer, size_t input) {
  const Value& value = consumer.inputs[input];
  if (IsCopied(*value.node)) {
    return MapCopied(part, value, consumer.device);
  }
  const bool is_here = value.node->device == consumer.device;
  const bool only_shape = consumer.op->UsesShapeOnly(static_cast<int>(input));
  if (is_here && (!only_shape || part.nodes.contains(value.node))) {
    return Value{part.nodes.at(value.node), value.index};
  }
  if (only_shape) {
    return EmitShapeOnly(part, value, consumer.device);
  }
  LS_ASSIGN_OR_RETURN(Node * recv, EmitRecv(*CrossingOf(consumer, value)));
  return recv->output();
}

Status Partitioner::EmitNode(const Node& node) {
  TransferSet& before = before_[static_cast<size_t>(node.id)];
  if (dropped_[static_cast<size_t>(node.id)] || IsCopied(node)) {
    return OkStatus();
  }
  PartState& part = PartOf(node.device);
  NodeSpec spec = SpecOf(node, node.device);
  spec.name = node.name;
  spec.op = node.op->name;
  spec.attrs = node.attrs;
  const auto follow = [&](const Node& input, std::optional<size_t> crossing) {
    if (crossing) {
      before = Union(before, With(crossings_[*crossing].before, *crossing));
    } else {
      before = Union(before, before_[static_cast<size_t>(input.id)]);
    }
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    LS_ASSIGN_OR_RETURN(const Value input, MapInput(part, node, i));
    spec.inputs.push_back(input);
    if (!node.op->UsesShapeOnly(static_cast<int>(i))) {
      follow(*node.inputs[i].node, CrossingOf(node, node.inputs[i]));
    }
  }
  for (const Node* control : node.control_inputs) {
    const std::optional<size_t> crossing = SignalOf(node, *control);
    if (crossing) {
      LS_ASSIGN_OR_RETURN(Node * recv, EmitRecv(*crossing));
      spec.control_inputs.push_back(recv);
    } else if (!HasNoStep(*control)) {
      spec.control_inputs.push_back(part.nodes.at(control));
    } else {
      continue;
    }
    follow(*control, crossing);
  }
  LS_ASSIGN_OR_RETURN(Node * copy, part.graph->AddNode(std::move(spec)));
  part.nodes.emplace(&node, copy);
  return EmitSends(node);
}

Status Partitioner::EmitFetches() {
  for (size_t i = 0; i < graph_.fetches.size(); ++i) {
    const Value& fetch = graph_.fetches[i];
    std::string device = fetch.node->device;
    Value mapped;
    if (IsCopied(*fetch.node)) {
      // Any part that has it will do.
      const auto holder = std::find_if(parts_.begin(), parts_.end(), [&](const auto& part) {
        return part.second.nodes.contains(fetch.node);
      });
      device = holder == parts_.end() ? device : holder->first;
      LS_ASSIGN_OR_RETURN(mapped, MapCopied(PartOf(device), fetch, device));
    } else {
      mapped = {PartOf(device).nodes.at(fetch.node), fetch.index};
    }
    PartState& part = PartOf(device);
    part.fetches.push_back(static_cast<int>(i));
    part.fetch_values.push_back(mapped);
  }
  return OkStatus();
}

PartitionedGraph Partitioner::Finish() {
  PartitionedGraph result;
  for (auto& [device, state] : parts_) {
    Part part;
    part.device = device;
    for (const Node* target : graph_.targets) {
      const auto copy = state.nodes.find(target);
      if (copy != state.nodes.end() && target->device == device) {
        part.graph.targets.push_back(copy->second);
      }
    }
    for (const Value& feed : state.feed_values) {
      state.graph->AddToCollection(kFeedCollection, feed);
    }
    for (const Value& fetch : state.fetch_values) {
      state.graph->AddToCollection(kFetchCollection, fetch);
    }
    part.graph.graph = std::move(state.graph);
    part.graph.feeds = std::move(state.feed_values);
    part.graph.fetches = std::move(state.fetch_values);
    part.feeds = std::move(state.feeds);
    part.fetches = std::move(state.fetches);
    result.parts.push_back(std::move(part));
  }
  for (const Crossing& crossing : crossings_) {
    Transfer transfer;
    if (crossing.signal == nullptr) {
      transfer.value = crossing.value.name();
      transfer.source = crossing.value.node->device;
      transfer.dtype = crossing.value.dtype();
      transfer.shape = crossing.value.shape();
    } else {
      transfer.value = "^" + crossing.signal->name;
      transfer.source = crossing.signal->device;
      transfer.shape = Shape{0};
    }
    transfer.destination = crossing.destination;
    result.transfers.push_back(std::move(transfer));
  }
  return result;
}

Result<PartitionedGraph> Partitioner::Run() {
  LS_TRY(CheckDevices());
  for (size_t i = 0; i < graph_.feeds.size(); ++i) {
    if (graph_.feeds[i].valid()) {
      feeds_.emplace(graph_.feeds[i].node, static_cast<int>(i));
    }
  }
  before_.resize(graph_.graph->nodes().size());
  DropJoins();
  FindCrossings();
  for (const Node* node : order_.nodes()) {
    LS_TRY(EmitNode(*node));
  }
  LS_TRY(EmitFetches());
  return Finish();
}

}  // namespace

Result<PartitionedGraph> Partition(const SpecializedGraph& graph, const PartitionOptions& options) {
  LS_ASSIGN_OR_RETURN(StepOrder order, StepOrder::Create(*graph.graph));
  return Partitioner(graph, options, std::move(order)).Run();
}

}  // namespace lockstep::pass
