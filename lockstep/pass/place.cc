#include "lockstep/pass/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace lockstep::pass {
namespace {

class Placer {
 public:
  Placer(const Graph& graph, const DeviceSet& devices, const PlacementOptions& options)
      : graph_(graph), devices_(devices), options_(options), parents_(graph.nodes().size()) {
    std::iota(parents_.begin(), parents_.end(), 0);
    placement_.devices.resize(graph.nodes().size());
  }

  Result<Placement> Run(const Placement* earlier);

 private:
  // What the members of a group ask for together.
  struct Group {
    DeviceName wish;
    // The member that asked first; null if none did.
    const Node* asker = nullptr;
    const PlacementDevice* device = nullptr;
    int members = 0;
  };

  int Find(int id);
  void Join(const Node& a, const Node& b);
  Status JoinGroups();
  Status KeepEarlier(const Placement& earlier);
  Status CollectWishes(size_t placed);
  Status CollectWish(const Node& node);
  // Devices that the wish allows, or what is left of it under soft placement.
  Result<const PlacementDevice*> Grant(const Node& node, DeviceName& wish);
  Status PlaceGroups();
  void FollowNeighbours();
  // The device that the consumers of a node agree on; null if they do not.
  const PlacementDevice* DeviceOfConsumers(const Node& node) const;
  void Note(const Node& node, std::string_view wish, std::string_view instead);

  Group& GroupOf(const Node& node) { return groups_[Find(node.id)]; }

  const Graph& graph_;
  const DeviceSet& devices_;
  const PlacementOptions& options_;
  std::vector<int> parents_;
  std::map<int, Group> groups_;
  std::vector<std::vector<const Node*>> consumers_;
  Placement placement_;
};

int Placer::Find(int id) {
  while (parents_[static_cast<size_t>(id)] != id) {
    int& parent = parents_[static_cast<size_t>(id)];
    parent = parents_[static_cast<size_t>(parent)];
    id = parent;
  }
  return id;
}

void Placer::Join(const Node& a, const Node& b) {
  const int first = Find(a.id);
  const int second = Find(b.id);
  // The oldest node stands for its group.
  parents_[static_cast<size_t>(std::max(first, second))] = std::min(first, second);
}

Status Placer::JoinGroups() {
  for (const auto& node : graph_.nodes()) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->op->Writes(static_cast<int>(i))) {
        Join(*node, *node->inputs[i].node);
      }
    }
    if (node->colocate_with.empty()) {
      continue;
    }
    const Node* other = graph_.FindNode(node->colocate_with);
    if (other == nullptr) {
      return InvalidArgument(
          fmt::format("{} is to share the device of '{}', which is not in the "
                      "graph",
                      node->Describe(), node->colocate_with));
    }
    Join(*node, *other);
  }
  for (const auto& node : graph_.nodes()) {
    ++GroupOf(*node).members;
  }
  return OkStatus();
}

Status Placer::KeepEarlier(const Placement& earlier) {
  LS_CHECK(earlier.devices.size() <= graph_.nodes().size());
  placement_.notes = earlier.notes;
  for (size_t i = 0; i < earlier.devices.size(); ++i) {
    const Node& node = *graph_.nodes()[i];
    Group& group = GroupOf(node);
    const PlacementDevice* device = devices_.Find(earlier.devices[i]);
    if (device == nullptr) {
      return InvalidArgument(fmt::format("{} was placed on {}, which is gone; there are {}",
                                         node.Describe(), earlier.devices[i], devices_.ToString()));
    }
    if (group.device != nullptr && group.device != device) {
      return InvalidArgument(fmt::format(
          "{} was placed on {} before and is now to share the device {} of {}", node.Describe(),
          earlier.devices[i], group.device->attributes.name, group.asker->Describe()));
    }
    group.device = device;
    group.asker = &node;
  }
  return OkStatus();
}

void Placer::Note(const Node& node, std::string_view wish, std::string_view instead) {
  placement_.notes.push_back(fmt::format("{} asks for {}, which it cannot have: placed on {}",
                                         node.Describe(), wish, instead));
}

Result<const PlacementDevice*> Placer::Grant(const Node& node, DeviceName& wish) {
  const PlacementDevice* device = devices_.First(wish);
  const bool runs = device != nullptr && HasKernelFor(*node.op, device->attributes.kind);
  if (runs) {
    return device;
  }
  DeviceName softer = wish;
  softer.type = "CPU";
  softer.index.reset();
  // A wish that leaves the kind open is for one that the op can run on.
  if (!wish.type && !wish.index) {
    const PlacementDevice* other = devices_.First(softer);
    if (other != nullptr && HasKernelFor(*node.op, other->attributes.kind)) {
      wish = softer;
      return other;
    }
  }
  if (options_.soft) {
    const PlacementDevice* other = devices_.First(softer);
    if (other != nullptr && HasKernelFor(*node.op, other->attributes.kind)) {
      Note(node, wish.ToString(), other->attributes.name);
      wish = softer;
      return other;
    }
  }
  if (device != nullptr) {
    return InvalidArgument(
        fmt::format("{} is to be placed on {}, which its op has no kernel for; "
                    "there are {}",
                    node.Describe(), device->attributes.name, devices_.ToString()));
  }
  return InvalidArgument(fmt::format("{} is to be placed on {}; there are {}", node.Describe(),
                                     wish.ToString(), devices_.ToString()));
}

Status Placer::CollectWish(const Node& node) {
  LS_ASSIGN_OR_RETURN(DeviceName wish, DeviceName::Parse(node.device));
  if (options_.any_task) {
    wish.job.reset();
    wish.replica.reset();
    wish.task.reset();
  }
  Group& group = GroupOf(node);
  if (group.device != nullptr) {
    if (!wish.CompatibleWith(group.device->name)) {
      if (!options_.soft) {
        return InvalidArgument(
            fmt::format("{} is to be placed on {}, but shares the device {} of {}", node.Describe(),
                        wish.ToString(), group.device->attributes.name, group.asker->Describe()));
      }
      Note(node, wish.ToString(), group.device->attributes.name);
    }
    return OkStatus();
  }
  LS_TRY(Grant(node, wish).status());
  if (group.asker == nullptr) {
    group.asker = &node;
    group.wish = wish;
    return OkStatus();
  }
  const bool agrees =
      wish.CompatibleWith(group.wish) && devices_.First(group.wish.MergedWith(wish)) != nullptr;
  if (agrees) {
    group.wish = group.wish.MergedWith(wish);
    return OkStatus();
  }
  if (!options_.soft) {
    return InvalidArgument(fmt::format(
        "{} is to be placed on {}, but shares the device of {}, "
        "which is to be placed on {}",
        node.Describe(), wish.ToString(), group.asker->Describe(), group.wish.ToString()));
  }
  Note(node, wish.ToString(), group.wish.ToString());
  return OkStatus();
}

// Of the nodes that were not placed before.
Status Placer::CollectWishes(size_t placed) {
  // A variable's own wish counts before those of what writes it.
  for (const bool variables : {true, false}) {
    for (const auto& node : graph_.nodes().subspan(placed)) {
      if ((node->op->name == "Variable") == variables && !node->device.empty()) {
        LS_TRY(CollectWish(*node));
      }
    }
  }
  return OkStatus();
}

Status Placer::PlaceGroups() {
  for (const auto& node : graph_.nodes()) {
    Group& group = GroupOf(*node);
    if (group.device == nullptr) {
      const Node& asker = group.asker == nullptr ? *node : *group.asker;
      LS_ASSIGN_OR_RETURN(group.device, Grant(asker, group.wish));
    }
    if (!HasKernelFor(*node->op, group.device->attributes.kind)) {
      return InvalidArgument(
          fmt::format("{} shares the device {} of {}, which its op has no kernel "
                      "for",
                      node->Describe(), group.device->attributes.name,
                      group.asker == nullptr ? node->Describe() : group.asker->Describe()));
    }
  }
  return OkStatus();
}

const PlacementDevice* Placer::DeviceOfConsumers(const Node& node) const {
  const PlacementDevice* device = nullptr;
  for (const Node* consumer : consumers_[static_cast<size_t>(node.id)]) {
    const PlacementDevice* other =
        devices_.Find(placement_.devices[static_cast<size_t>(consumer->id)]);
    if (device != nullptr && other != device) {
      return nullptr;
    }
    device = other;
  }
  return device;
}

// Nodes alone in their group may go where their data comes from or goes to.
void Placer::FollowNeighbours() {
  constexpr std::string_view kReads[] = {"Identity", "StopGradient", "Gather"};
  const auto move = [&](const Node& node, const PlacementDevice* device) {
    const Group& group = GroupOf(node);
    if (group.members == 1 && device != nullptr && device->name.CompatibleWith(group.wish) &&
        HasKernelFor(*node.op, device->attributes.kind)) {
      placement_.devices[static_cast<size_t>(node.id)] = device->attributes.name;
    }
  };
  for (const auto& node : graph_.nodes()) {
    const bool reads =
        !node->inputs.empty() && VariableOf(node->inputs[0]) != nullptr &&
        std::find(std::begin(kReads), std::end(kReads), node->op->name) != std::end(kReads);
    if (reads) {
      move(*node, GroupOf(*VariableOf(node->inputs[0])).device);
    }
  }
  for (const auto& node : graph_.nodes()) {
    const bool is_source = node->inputs.empty() && node->control_inputs.empty() &&
                           node->outputs.size() == 1 && !node->op->stateful;
    if (is_source) {
      move(*node, DeviceOfConsumers(*node));
    }
  }
}

Result<Placement> Placer::Run(const Placement* earlier) {
  const size_t placed = earlier == nullptr ? 0 : earlier->devices.size();
  LS_TRY(JoinGroups());
  if (earlier != nullptr) {
    LS_TRY(KeepEarlier(*earlier));
  }
  LS_TRY(CollectWishes(placed));
  LS_TRY(PlaceGroups());
  consumers_.resize(graph_.nodes().size());
  for (const auto& node : graph_.nodes()) {
    placement_.devices[static_cast<size_t>(node->id)] = GroupOf(*node).device->attributes.name;
    for (const Value& input : node->inputs) {
      consumers_[static_cast<size_t>(input.node->id)].push_back(node.get());
    }
  }
  FollowNeighbours();
  for (size_t i = 0; i < placed; ++i) {
    placement_.devices[i] = earlier->devices[i];
  }
  return std::move(placement_);
}

}  // namespace

const Node* VariableOf(const Value& value) {
  const Value* at = &value;
  // What writes a variable returns the one at its first input.
  while (at->type().is_variable && !at->node->inputs.empty()) {
    at = at->node->inputs.data();
  }
  return at->type().is_variable ? at->node : nullptr;
}

Result<Placement> Place(const Graph& graph, const DeviceSet& devices,
                        const PlacementOptions& options, const Placement* earlier) {
  return Placer(graph, devices, options).Run(earlier);
}

std::string DescribePlacement(const Graph& graph, const Placement& placement) {
  std::string text;
  for (size_t i = 0; i < placement.devices.size(); ++i) {
    const Node& node = *graph.nodes()[i];
    text += fmt::format("{} ({}): {}\n", node.name, node.op->name, placement.devices[i]);
  }
  return text;
}

}  // namespace lockstep::pass
