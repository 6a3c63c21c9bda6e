#include "lockstep/exec/internal/local_placement.h"

namespace lockstep::exec {

LocalPlacement::LocalPlacement(const Graph& graph, int num_devices)
    : graph_(graph), num_devices_(num_devices) {}

Result<std::vector<std::string>> LocalPlacement::Devices() {
  const MutexLock lock(mu_);
  if (placement_.devices.size() < graph_.nodes().size()) {
    std::vector<pass::DeviceAttributes> devices;
    for (int i = 0; i < num_devices_; ++i) {
      devices.push_back({.name = pass::LocalDeviceName(i)});
    }
    LS_ASSIGN_OR_RETURN(const pass::DeviceSet set,
                        pass::DeviceSet::Create(std::move(devices), pass::LocalDeviceName(0), {}));
    LS_ASSIGN_OR_RETURN(placement_, pass::Place(graph_, set, {.any_task = true}, &placement_));
  }
  return placement_.devices;
}

bool LocalPlacement::Trivial() {
  const MutexLock lock(mu_);
  for (; trivial_ && seen_ < graph_.nodes().size(); ++seen_) {
    const Node& node = *graph_.nodes()[seen_];
    if (!node.device.empty()) {
      const Result<DeviceName> name = DeviceName::Parse(node.device);
      trivial_ = name.ok() && name->index.value_or(0) == 0;
    }
  }
  return trivial_;
}

}  // namespace lockstep::exec
