#include "lockstep/exec/part_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/exec/internal/step_threads.h"
#include "lockstep/op/catalog.h"

namespace lockstep::exec {

// Kept alive by the steps that run.
struct PartRunner::Registered {
  PartRegistration registration;
  PeerResolver peers;
  std::shared_ptr<VariableStore> store;
  size_t num_feeds = 0;
  size_t num_fetches = 0;
  Mutex mu;
  // A step at a time runs in each; more are compiled for more steps at the same time.
  std::vector<std::unique_ptr<PlacedStep>> idle LS_GUARDED_BY(mu);
};

PartRunner::PartRunner(Token, const PartRunnerOptions& options)
    : options_(options), threads_(std::make_unique<StepThreads>()) {
  for (int i = 0; i < options.devices; ++i) {
    devices_.push_back(std::make_unique<Device>(i, options.threads_per_device));
  }
}

PartRunner::~PartRunner() = default;

Result<std::unique_ptr<PartRunner>> PartRunner::Create(const PartRunnerOptions& options) {
  constexpr int kMaxDevices = 1024;
  LS_ASSIGN_OR_RETURN(const DeviceName task, DeviceName::Parse(options.task));
  if (!task.names_task() || task.type || task.index) {
    return InvalidArgument(
        fmt::format("'{}' is no task: expected /job:NAME/replica:N/task:N", options.task));
  }
  if (options.devices < 1 || options.devices > kMaxDevices || options.threads_per_device < 1 ||
      options.threads_per_device > kMaxDevices) {
    return InvalidArgument(
        fmt::format("a task has {} devices with {} threads each, allowed are 1 to {} of both",
                    options.devices, options.threads_per_device, kMaxDevices));
  }
  LS_TRY(CheckThreads(options.threads_per_device));
  return std::make_unique<PartRunner>(Token(), options);
}

std::vector<std::string> PartRunner::devices() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < devices_.size(); ++i) {
    names.push_back(fmt::format("{}/device:CPU:{}", options_.task, i));
  }
  return names;
}

Result<std::vector<DevicePart>> PartRunner::Parse(const PartRegistration& registration) const {
  const std::vector<std::string> names = devices();
  std::vector<DevicePart> parts;
  int feeds = 0;
  int fetches = 0;
  for (const PartRegistration::PartBytes& bytes : registration.parts) {
    const auto name = std::find(names.begin(), names.end(), bytes.device);
    if (name == names.end()) {
      return InvalidArgument(fmt::format("there is no device '{}', the task has {} to {}",
                                         bytes.device, names.front(), names.back()));
    }
    LS_ASSIGN_OR_RETURN(pass::Part part,
                        pass::ParsePart(bytes.graph, op::Catalog(), options_.limits, bytes.device));
    std::for_each(part.feeds.begin(), part.feeds.end(), [&](int& feed) { feed = feeds++; });
    std::for_each(part.fetches.begin(), part.fetches.end(), [&](int& fetch) { fetch = fetches++; });
    parts.push_back({std::move(part), devices_[static_cast<size_t>(name - names.begin())].get()});
  }
  return parts;
}

Result<std::unique_ptr<PlacedStep>> PartRunner::Compile(const Registered& registered) const {
  LS_ASSIGN_OR_RETURN(std::vector<DevicePart> parts, Parse(registered.registration));
  return PlacedStep::Compile(std::move(parts), *registered.store, *threads_, registered.peers);
}

Result<uint64_t> PartRunner::Register(const PartRegistration& registration, PeerResolver peers) {
  auto registered = std::make_shared<Registered>();
  registered->registration = registration;
  registered->peers = std::move(peers);
  registered->store = Container(registration.container);
  LS_ASSIGN_OR_RETURN(std::unique_ptr<PlacedStep> step, Compile(*registered));
  registered->num_feeds = step->num_feeds();
  registered->num_fetches = step->num_fetches();
  {
    const MutexLock lock(registered->mu);
    registered->idle.push_back(std::move(step));
  }
  const MutexLock lock(mu_);
  const uint64_t handle = next_handle_++;
  registered_.emplace(handle, std::move(registered));
  return handle;
}

Status PartRunner::Deregister(uint64_t handle) {
  std::shared_ptr<Registered> last;
  const MutexLock lock(mu_);
  const auto found = registered_.find(handle);
  if (found == registered_.end()) {
    return NotFound(fmt::format("graph handle {} is not registered", handle));
  }
  last = std::move(found->second);
  registered_.erase(found);
  return OkStatus();
}

Status PartRunner::Run(uint64_t handle, const PartRun& run, std::span<const Tensor> feeds,
                       std::span<Tensor> fetches) {
  std::shared_ptr<Registered> registered;
  {
    const MutexLock lock(mu_);
    const auto found = registered_.find(handle);
    if (found == registered_.end()) {
      return Aborted(fmt::format(
          "graph handle {} is not registered on {}: it was deregistered, or the task has "
          "restarted",
          handle, options_.task));
    }
    registered = found->second;
  }
  if (feeds.size() != registered->num_feeds || fetches.size() != registered->num_fetches) {
    return InvalidArgument(fmt::format("{} feeds and {} fetches for parts with {} and {}",
                                       feeds.size(), fetches.size(), registered->num_feeds,
                                       registered->num_fetches));
  }
  std::unique_ptr<PlacedStep> step;
  {
    const MutexLock lock(registered->mu);
    if (!registered->idle.empty()) {
      step = std::move(registered->idle.back());
      registered->idle.pop_back();
    }
  }
  if (step == nullptr) {
    LS_ASSIGN_OR_RETURN(step, Compile(*registered));
  }
  const StepRun step_run{run.rendezvous, registered->registration.scope, run.step, run.deadline,
                         run.cancellation};
  Status status = step->Run(feeds, fetches, run.info, step_run);
  const MutexLock lock(registered->mu);
  registered->idle.push_back(std::move(step));
  return status;
}

std::shared_ptr<VariableStore> PartRunner::Container(std::string_view name) {
  const MutexLock lock(mu_);
  auto found = containers_.find(name);
  if (found == containers_.end()) {
    found = containers_.emplace(name, std::make_shared<VariableStore>()).first;
  }
  return found->second;
}

void PartRunner::Reset(std::span<const std::string> names) {
  const MutexLock lock(mu_);
  if (names.empty()) {
    containers_.clear();
  }
  for (const std::string& name : names) {
    containers_.erase(name);
  }
}

}  // namespace lockstep::exec
