// Device names: "/job:worker/replica:0/task:1/device:CPU:0". Every part may be missing (a partial
// specification); "*" means the same. Short forms "cpu:0", "/cpu:0" stand for "/device:CPU:0".
// Types are upper-case in canonical form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;
  std::optional<int> index;

  // The empty string is the specification that names nothing.
  static Result<DeviceName> Parse(std::string_view text);

  // Parts that `inner` names replace those of this one. An inner type without an index drops the
  // outer index.
  DeviceName MergedWith(const DeviceName& inner) const;

  // The parts that this one leaves open are taken from `base`: how a partial name that a user gave
  // becomes canonical on a task. A type keeps its own index only: "cpu" over ".../device:GPU:3" is
  // "CPU" without one.
  DeviceName FilledFrom(const DeviceName& base) const;

  // Both at once; INVALID_ARGUMENT that names both if a part differs. With `soft`, a type or an
  // index that differs is left open instead (and with the type its index): any device of the task.
  Result<DeviceName> CombinedWith(const DeviceName& other, bool soft = false) const;

  // Every part named in both is equal.
  bool CompatibleWith(const DeviceName& other) const;

  // Every part that is named here is named in `other` with the same value: `other` is a case of
  // this one.
  bool Covers(const DeviceName& other) const;

  // One device: every part is named.
  bool full() const { return job && replica && task && type && index; }

  // Names one task: job, replica and task.
  bool names_task() const { return job && replica && task; }

  // Both name a task, and it is the same one: they share an address space.
  bool SameTask(const DeviceName& other) const;

  // Job, replica and task: "/job:worker/replica:0/task:1".
  DeviceName TaskPart() const;
  // Type and index: "/device:CPU:0".
  DeviceName LocalPart() const;

  // Canonical; empty if no part is named.
  std::string ToString() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

}  // namespace lockstep
