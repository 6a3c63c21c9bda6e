#include "lockstep/pass/replica_device_setter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "lockstep/base/sha256.h"
#include "lockstep/graph/device_name.h"

namespace lockstep::pass {
namespace {

Status CheckTasks(int num_tasks) {
  return num_tasks > 0 ? OkStatus()
                       : InvalidArgument(fmt::format(
                             "{} parameter server tasks, at least 1 is needed", num_tasks));
}

Result<std::string> DeviceOf(const ReplicaDeviceOptions& options, const NodeSpec& node) {
  LS_ASSIGN_OR_RETURN(const DeviceName inner, DeviceName::Parse(node.device));
  if (!options.merge_devices && !node.device.empty()) {
    return node.device;
  }
  const bool on_ps =
      !options.ps_device.empty() &&
      std::find(options.ps_ops.begin(), options.ps_ops.end(), node.op) != options.ps_ops.end();
  LS_ASSIGN_OR_RETURN(DeviceName outer,
                      DeviceName::Parse(on_ps ? options.ps_device : options.worker_device));
  const bool chooses_task = on_ps && outer.job && (!inner.job || inner.job == outer.job);
  if (chooses_task && !inner.task) {
    LS_ASSIGN_OR_RETURN(const int task, options.ps_strategy(node));
    if (task < 0 || task >= options.ps_tasks) {
      return OutOfRange(
          fmt::format("the strategy chose ps task {}, there are {}", task, options.ps_tasks));
    }
    outer.task = task;
  }
  return outer.MergedWith(inner).ToString();
}

}  // namespace

PsStrategy RoundRobinStrategy(int num_tasks) {
  return [num_tasks, next = std::make_shared<int>(0)](const NodeSpec&) -> Result<int> {
    LS_TRY(CheckTasks(num_tasks));
    const int task = *next;
    *next = (task + 1) % num_tasks;
    return task;
  };
}

PsStrategy RandomStrategy(int num_tasks, int64_t seed) {
  return [num_tasks, seed](const NodeSpec& node) -> Result<int> {
    LS_TRY(CheckTasks(num_tasks));
    LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
    hash.Update(fmt::format("{}_{}", node.name, seed));
    const std::string digits = std::move(hash).HexDigest();
    uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + 16, number, 16);
    return static_cast<int>(number % static_cast<uint64_t>(num_tasks));
  };
}

PsStrategy GreedyLoadBalancingStrategy(int num_tasks, LoadFunction load) {
  auto loads = std::make_shared<std::vector<double>>(static_cast<size_t>(std::max(num_tasks, 0)));
  return [num_tasks, load = std::move(load), loads](const NodeSpec& node) -> Result<int> {
    LS_TRY(CheckTasks(num_tasks));
    LS_ASSIGN_OR_RETURN(const double added, load(node));
    const auto least = std::min_element(loads->begin(), loads->end());
    *least += added;
    return static_cast<int>(least - loads->begin());
  };
}

Result<double> ByteSizeLoad(const NodeSpec& node) {
  const AttrValue* dtype = node.attrs.Find("dtype");
  const AttrValue* shape = node.attrs.Find("shape");
  const bool known = dtype != nullptr && std::holds_alternative<DType>(*dtype) &&
                     shape != nullptr && std::holds_alternative<Shape>(*shape) &&
                     std::get<Shape>(*shape).fully_known();
  if (!known) {
    return InvalidArgument(fmt::format(
        "the size of op {} '{}' is not known: it has no attributes 'dtype' and 'shape' with known "
        "dimensions",
        node.op, node.name));
  }
  return static_cast<double>(std::get<Shape>(*shape).num_elements()) *
         static_cast<double>(DTypeSize(std::get<DType>(*dtype)));
}

DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options) {
  if (options.ps_tasks == 0) {
    return nullptr;
  }
  if (options.ps_strategy == nullptr) {
    options.ps_strategy = RoundRobinStrategy(options.ps_tasks);
  }
  return [options = std::move(options)](const NodeSpec& node) { return DeviceOf(options, node); };
}

}  // namespace lockstep::pass
