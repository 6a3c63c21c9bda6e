// DeviceSet: the devices that a graph may be placed on, in the order in which placement prefers
// them: the default device, then others of its task, then by job, replica, task, kind and index.
// Immutable, so safe to share between threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/graph/device_name.h"
#include "lockstep/graph/op_def.h"

namespace lockstep::pass {

// What a task tells others about one of its devices.
struct DeviceAttributes {
  // Full: "/job:worker/replica:0/task:2/device:CPU:0".
  std::string name;
  std::string kind = "CPU";
  // 0: unknown.
  uint64_t memory_limit_bytes = 0;
  // Chosen at random at each start of the task, never 0.
  uint64_t incarnation = 0;
};

struct PlacementDevice {
  DeviceAttributes attributes;
  DeviceName name;
};

class DeviceSet {
 public:
  // `filters` are partial names: devices that match none of them are left out, except those of the
  // default device's task; no filter: nothing is left out. Errors: a name that is not full or given
  // twice, a default device that is not among the devices, a malformed filter.
  static Result<DeviceSet> Create(std::vector<DeviceAttributes> devices,
                                  std::string_view default_device,
                                  std::span<const std::string> filters);

  std::span<const PlacementDevice> devices() const { return devices_; }

  // The first device that matches a partial name; null if there is none.
  const PlacementDevice* First(const DeviceName& wish) const;

  // Null if there is none.
  const PlacementDevice* Find(std::string_view name) const;

  // The names for messages; of many only the first.
  std::string ToString() const;

 private:
  std::vector<PlacementDevice> devices_;
};

// "/job:localhost/replica:0/task:0/device:CPU:2": a device of a process that is in no cluster.
std::string LocalDeviceName(int index);

// Can the op run on devices of this kind?
bool HasKernelFor(const OpDef& op, std::string_view kind);

}  // namespace lockstep::pass
