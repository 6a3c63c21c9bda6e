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

  // Every part named in both is equal.
  bool CompatibleWith(const DeviceName& other) const;

  // Canonical; empty if no part is named.
  std::string ToString() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

}  // namespace lockstep
