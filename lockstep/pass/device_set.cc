#include "lockstep/pass/device_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace lockstep::pass {
namespace {

// Smaller is preferred.
auto Rank(const DeviceName& name, const DeviceName& preferred) {
  return std::make_tuple(name != preferred, !name.SameTask(preferred), name.job, name.replica,
                         name.task, name.type, name.index);
}

}  // namespace

std::string LocalDeviceName(int index) {
  return fmt::format("/job:localhost/replica:0/task:0/device:CPU:{}", index);
}

bool HasKernelFor(const OpDef& op, std::string_view kind) {
  // Placeholders, variables and the like are run by the plan itself.
  const bool has_function = op.cpu != nullptr || op.reference != nullptr;
  return kind == "CPU" && (has_function || op.min_inputs == 0);
}

Result<DeviceSet> DeviceSet::Create(std::vector<DeviceAttributes> devices,
                                    std::string_view default_device,
                                    std::span<const std::string> filters) {
  LS_ASSIGN_OR_RETURN(const DeviceName preferred, DeviceName::Parse(default_device));
  std::vector<DeviceName> wanted;
  for (const std::string& filter : filters) {
    LS_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(filter));
    wanted.push_back(std::move(name));
  }
  DeviceSet set;
  for (DeviceAttributes& attributes : devices) {
    LS_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(attributes.name));
    if (!name.full()) {
      return InvalidArgument(
          fmt::format("device '{}' is no full name: expected /job:NAME/replica:N/task:N/device:"
                      "TYPE:N",
                      attributes.name));
    }
    attributes.name = name.ToString();
    const bool kept = wanted.empty() || name.SameTask(preferred) ||
                      std::any_of(wanted.begin(), wanted.end(), [&](const DeviceName& filter) {
                        return filter.CompatibleWith(name);
                      });
    if (set.Find(attributes.name) != nullptr) {
      return InvalidArgument(fmt::format("device {} is given twice", attributes.name));
    }
    if (kept) {
      set.devices_.push_back({std::move(attributes), std::move(name)});
    }
  }
  std::sort(set.devices_.begin(), set.devices_.end(),
            [&](const PlacementDevice& a, const PlacementDevice& b) {
              return Rank(a.name, preferred) < Rank(b.name, preferred);
            });
  if (set.devices_.empty() || set.devices_[0].name != preferred) {
    return InvalidArgument(fmt::format("the default device '{}' is not among the devices {}",
                                       default_device, set.ToString()));
  }
  return set;
}

const PlacementDevice* DeviceSet::First(const DeviceName& wish) const {
  const auto found =
      std::find_if(devices_.begin(), devices_.end(),
                   [&](const PlacementDevice& device) { return device.name.CompatibleWith(wish); });
  return found == devices_.end() ? nullptr : &*found;
}

const PlacementDevice* DeviceSet::Find(std::string_view name) const {
  const auto found =
      std::find_if(devices_.begin(), devices_.end(),
                   [&](const PlacementDevice& device) { return device.attributes.name == name; });
  return found == devices_.end() ? nullptr : &*found;
}

std::string DeviceSet::ToString() const {
  constexpr size_t kShown = 16;
  std::string text;
  for (size_t i = 0; i < std::min(devices_.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", devices_[i].attributes.name);
  }
  if (devices_.size() > kShown) {
    text += fmt::format(" and {} more", devices_.size() - kShown);
  }
  return text.empty() ? "(none)" : text;
}

}  // namespace lockstep::pass
