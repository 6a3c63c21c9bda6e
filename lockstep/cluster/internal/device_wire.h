// Devices on the wire.
#pragma once

#include <vector>

#include "lockstep/cluster/internal/control.pb.h"
#include "lockstep/pass/device_set.h"

namespace lockstep::cluster::internal {

inline wire::DeviceList ToWire(const std::vector<pass::DeviceAttributes>& devices) {
  wire::DeviceList list;
  for (const pass::DeviceAttributes& device : devices) {
    wire::DeviceInfo* added = list.add_devices();
    added->set_name(device.name);
    added->set_kind(device.kind);
    added->set_memory_limit_bytes(device.memory_limit_bytes);
    added->set_incarnation(device.incarnation);
  }
  return list;
}

inline std::vector<pass::DeviceAttributes> FromWire(const wire::DeviceList& list) {
  std::vector<pass::DeviceAttributes> devices;
  for (const wire::DeviceInfo& device : list.devices()) {
    devices.push_back({.name = device.name(),
                       .kind = device.kind(),
                       .memory_limit_bytes = device.memory_limit_bytes(),
                       .incarnation = device.incarnation()});
  }
  return devices;
}

}  // namespace lockstep::cluster::internal
