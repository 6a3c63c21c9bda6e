#include "lockstep/exec/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/exec/internal/local_placement.h"
#include "lockstep/exec/internal/step_threads.h"
#include "lockstep/exec/local_rendezvous.h"
#include "lockstep/graph/device_name.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/partition.h"

namespace lockstep::exec {

Status Callable::CheckFeeds(std::span<const Tensor> feeds) const {
  if (feeds.size() != signature_.feeds.size()) {
    return InvalidArgument(fmt::format("{} tensors are fed, the signature has {} feeds",
                                       feeds.size(), signature_.feeds.size()));
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Value& value = signature_.feeds[i];
    if (!feeds[i].has_value()) {
      return InvalidArgument(fmt::format("the feed of {} holds no tensor", value.node->Describe()));
    }
    if (feeds[i].dtype() != value.dtype() || !feeds[i].shape().CompatibleWith(value.shape())) {
      return InvalidArgument(fmt::format("the feed of {} is {} {}, expected {}",
                                         value.node->Describe(), DTypeName(feeds[i].dtype()),
                                         feeds[i].shape().ToString(), value.type().ToString()));
    }
  }
  return OkStatus();
}

Result<Callable::Entry> Callable::Compile(std::span<const Tensor> feeds) const {
  Entry entry;
  std::vector<pass::Feed> shapes;
  for (size_t i = 0; i < feeds.size(); ++i) {
    entry.shapes.push_back(feeds[i].shape());
    shapes.push_back({signature_.feeds[i], feeds[i].dtype(), feeds[i].shape()});
  }
  std::vector<std::string> devices;
  if (placed_ != nullptr && !placed_->placement->Trivial()) {
    LS_ASSIGN_OR_RETURN(devices, placed_->placement->Devices());
  }
  LS_ASSIGN_OR_RETURN(pass::SpecializedGraph graph,
                      pass::Specialize(graph_, shapes, signature_.fetches, signature_.targets,
                                       devices, signature_.done));
  const auto elsewhere = [](const auto& node) { return node->device != pass::LocalDeviceName(0); };
  const auto nodes = graph.graph->nodes();
  if (!devices.empty() && std::any_of(nodes.begin(), nodes.end(), elsewhere)) {
    LS_ASSIGN_OR_RETURN(entry.step, CompileParts(graph));
    return entry;
  }
  LS_ASSIGN_OR_RETURN(graph, pass::Fuse(std::move(graph)));
  const MutexLock lock(store_.settle_mutex());
  LS_ASSIGN_OR_RETURN(entry.plan, Plan::Compile(std::move(graph), store_, device_));
  return entry;
}

Result<std::unique_ptr<PlacedStep>> Callable::CompileParts(
    const pass::SpecializedGraph& graph) const {
  LS_ASSIGN_OR_RETURN(pass::PartitionedGraph partitioned, pass::Partition(graph, {}));
  std::vector<DevicePart> parts;
  for (pass::Part& part : partitioned.parts) {
    LS_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(part.device));
    Device* device = placed_->devices[static_cast<size_t>(name.index.value_or(0))].get();
    parts.push_back({std::move(part), device});
  }
  return PlacedStep::Compile(std::move(parts), store_, *placed_->threads, nullptr);
}

Result<Callable::Entry*> Callable::Lookup(std::span<const Tensor> feeds) {
  const auto fits = [&](const Entry& entry) {
    for (size_t i = 0; i < feeds.size(); ++i) {
      if (!(entry.shapes[i] == feeds[i].shape())) {
        return false;
      }
    }
    return true;
  };
  const auto found = std::find_if(plans_.begin(), plans_.end(), fits);
  if (found != plans_.end()) {
    return &*found;
  }
  LS_ASSIGN_OR_RETURN(Entry entry, Compile(feeds));
  plans_.push_back(std::move(entry));
  return &plans_.back();
}

Status Callable::RunPlaced(PlacedStep& step, std::span<const Tensor> feeds,
                           std::span<Tensor> fetches, const StepInfo& info) const {
  const uint64_t number = placed_->next_step->fetch_add(1);
  const StepRun run{placed_->rendezvous, /*scope=*/0, number, Deadline::Infinite(), nullptr};
  const Status status = step.Run(feeds, fetches, info, run);
  placed_->rendezvous->Cleanup(run.scope, run.step);
  return status;
}

Status Callable::Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
                     StepProfile* profile, const FetchListener& on_fetched) {
  if (fetches.size() != signature_.fetches.size()) {
    return InvalidArgument(fmt::format("room for {} results, the signature has {} fetches",
                                       fetches.size(), signature_.fetches.size()));
  }
  LS_TRY(CheckFeeds(feeds));
  const MutexLock lock(mu_);
  LS_ASSIGN_OR_RETURN(Entry * entry, Lookup(feeds));
  if (entry->step != nullptr) {
    return RunPlaced(*entry->step, feeds, fetches, info);
  }
  Status status = entry->plan->Run(feeds, fetches, info, profile, on_fetched);
  if (status.code() == StatusCode::kAborted) {
    // Another plan has settled the layout of a variable in the meantime.
    std::erase_if(plans_, [&](const Entry& old) { return &old == entry; });
    LS_ASSIGN_OR_RETURN(entry, Lookup(feeds));
    status = entry->plan->Run(feeds, fetches, info, profile, on_fetched);
  }
  return status;
}

Result<const Plan*> Callable::PlanFor(std::span<const Tensor> feeds) {
  LS_TRY(CheckFeeds(feeds));
  const MutexLock lock(mu_);
  LS_ASSIGN_OR_RETURN(const Entry* entry, Lookup(feeds));
  if (entry->plan == nullptr) {
    return FailedPrecondition(fmt::format(
        "the signature runs on {} devices, each with a plan of its own", entry->step->num_parts()));
  }
  return entry->plan.get();
}

Session::Session(Token, const Graph& graph, const SessionOptions& options,
                 std::shared_ptr<VariableStore> store)
    : graph_(graph),
      options_(options),
      store_(store == nullptr ? std::make_shared<VariableStore>() : std::move(store)),
      placement_(std::make_unique<LocalPlacement>(graph, options.devices)),
      rendezvous_(std::make_unique<LocalRendezvous>()),
      threads_(std::make_unique<StepThreads>()) {
  for (int i = 0; i < options.devices; ++i) {
    devices_.push_back(std::make_unique<Device>(i, options.threads_per_device));
  }
  placed_env_ = {placement_.get(), devices_, threads_.get(), rendezvous_.get(), &next_placed_step_};
}

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Create(const Graph& graph, const SessionOptions& options,
                                                 std::shared_ptr<VariableStore> store) {
  constexpr int kMaxDevices = 1024;
  if (options.devices < 1 || options.devices > kMaxDevices || options.threads_per_device < 1 ||
      options.threads_per_device > kMaxDevices) {
    return InvalidArgument(
        fmt::format("a session has {} devices with {} threads each, allowed are 1 to {} of both",
                    options.devices, options.threads_per_device, kMaxDevices));
  }
  LS_TRY(CheckThreads(options.threads_per_device));
  auto session = std::make_unique<Session>(Token(), graph, options, std::move(store));
  LS_TRY(session->CheckDevices());
  return session;
}

Status Session::CheckDevices() const {
  for (const auto& node : graph_.nodes()) {
    if (node->device.empty()) {
      continue;
    }
    LS_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(node->device));
    const bool exists =
        (!name.type || *name.type == "CPU") && (!name.index || *name.index < options_.devices);
    if (!exists) {
      return InvalidArgument(fmt::format(
          "{} is placed on {}; this process has the devices {}", node->Describe(), node->device,
          options_.devices == 1
              ? std::string("/device:CPU:0")
              : fmt::format("/device:CPU:0 to /device:CPU:{}", options_.devices - 1)));
    }
  }
  return OkStatus();
}

Status Session::CheckSignature(const Signature& signature) const {
  const auto in_graph = [&](const Node* node) {
    const auto id = static_cast<size_t>(node->id);
    return id < graph_.nodes().size() && graph_.nodes()[id].get() == node;
  };
  for (size_t i = 0; i < signature.feeds.size(); ++i) {
    const Value& feed = signature.feeds[i];
    if (!feed.valid() || !in_graph(feed.node)) {
      return InvalidArgument(fmt::format("feed {} is not a value of this session's graph", i));
    }
    if (std::count(signature.feeds.begin(), signature.feeds.end(), feed) > 1) {
      return InvalidArgument(fmt::format("{} is fed twice", feed.node->Describe()));
    }
  }
  for (size_t i = 0; i < signature.fetches.size(); ++i) {
    const Value& fetch = signature.fetches[i];
    if (!fetch.valid() || !in_graph(fetch.node)) {
      return InvalidArgument(fmt::format("fetch {} is not a value of this session's graph", i));
    }
  }
  for (size_t i = 0; i < signature.targets.size(); ++i) {
    if (signature.targets[i] == nullptr || !in_graph(signature.targets[i])) {
      return InvalidArgument(fmt::format("target {} is not a node of this session's graph", i));
    }
  }
  return OkStatus();
}

Result<Callable*> Session::Prepare(const Signature& signature, int device) {
  if (device < 0 || device >= num_devices()) {
    return InvalidArgument(
        fmt::format("there is no device {}, the session has {}", device, num_devices()));
  }
  return PrepareOn(signature, device);
}

Result<Callable*> Session::Prepare(const Signature& signature) {
  return PrepareOn(signature, kPlaced);
}

Result<Callable*> Session::PrepareOn(const Signature& signature, int device) {
  const MutexLock lock(mu_);
  const auto found =
      std::find_if(callables_.begin(), callables_.end(), [&](const Prepared& prepared) {
        return prepared.device == device && prepared.signature == signature;
      });
  if (found != callables_.end()) {
    return found->callable.get();
  }
  LS_TRY(CheckSignature(signature));
  const auto first = static_cast<size_t>(std::max(device, 0));
  auto callable = std::make_unique<Callable>(Callable::Token(), graph_, *store_, *devices_[first],
                                             signature, device == kPlaced ? &placed_env_ : nullptr);
  callables_.push_back({signature, device, std::move(callable)});
  return callables_.back().callable.get();
}

Status Session::Initialize() {
  std::vector<Node*> targets;
  for (const Value& value : graph_.Collection(collection::kInitializers)) {
    targets.push_back(value.node);
  }
  return Run({}, {}, targets).status();
}

Result<std::vector<Tensor>> Session::Run(const FeedList& feeds, const std::vector<Value>& fetches,
                                         const std::vector<Node*>& targets) {
  Signature signature;
  std::vector<Tensor> feed_tensors;
  for (const auto& [value, tensor] : feeds) {
    signature.feeds.push_back(value);
    feed_tensors.push_back(tensor);
  }
  signature.fetches = fetches;
  signature.targets = targets;
  LS_ASSIGN_OR_RETURN(Callable * callable, Prepare(signature));
  std::vector<Tensor> results(fetches.size());
  const StepInfo info{options_.seed, next_step_.fetch_add(1), 0};
  LS_TRY(callable->Run(feed_tensors, results, info));
  return results;
}

Result<uint64_t> Session::PartialRunSetup(const Signature& whole, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(pass::PartialStep step,
                      pass::PartialStep::Create(graph_, whole.feeds, whole.fetches, whole.targets));
  return partial_runs_.Begin(std::move(step), next_step_.fetch_add(1), deadline);
}

Result<std::vector<Tensor>> Session::PartialRun(uint64_t run, const FeedList& feeds,
                                                const std::vector<Value>& fetches,
                                                const std::vector<Node*>& targets) {
  const auto execute = [this](const pass::PartialStep::Part& part, int64_t number,
                              const Deadline&) -> Result<std::vector<Tensor>> {
    LS_ASSIGN_OR_RETURN(Callable * callable,
                        Prepare({part.feeds, part.fetches, part.targets, part.done}));
    std::vector<Tensor> results(part.fetches.size());
    LS_TRY(callable->Run(part.tensors, results, {options_.seed, number, 0}));
    return results;
  };
  return partial_runs_.Continue(run, feeds, fetches, targets, execute);
}

Result<std::vector<Tensor>> Session::RunByName(
    const std::vector<std::pair<std::string, Tensor>>& feeds,
    const std::vector<std::string>& fetches, const std::vector<std::string>& targets) {
  FeedList feed_list;
  for (const auto& [name, tensor] : feeds) {
    LS_ASSIGN_OR_RETURN(const Value value, graph_.FindValue(name));
    feed_list.emplace_back(value, tensor);
  }
  std::vector<Value> fetch_values;
  for (const std::string& name : fetches) {
    LS_ASSIGN_OR_RETURN(const Value value, graph_.FindValue(name));
    fetch_values.push_back(value);
  }
  std::vector<Node*> target_nodes;
  for (const std::string& name : targets) {
    Node* node = graph_.FindNode(name);
    if (node == nullptr) {
      return NotFound(fmt::format("the graph has no node '{}' to run", name));
    }
    target_nodes.push_back(node);
  }
  return Run(feed_list, fetch_values, target_nodes);
}

}  // namespace lockstep::exec
