// The group of all tasks of a transport, for tests.
#pragma once

#include <chrono>
#include <memory>
#include <numeric>

#include "lockstep/collective/group.h"

namespace lockstep::strategy::testing {

// `options` without name and tasks.
inline Result<std::unique_ptr<collective::Group>> GroupOfAll(net::Transport& transport,
                                                             collective::GroupOptions options) {
  options.name = "workers";
  options.tasks.resize(static_cast<size_t>(transport.num_tasks()));
  std::iota(options.tasks.begin(), options.tasks.end(), 0);
  return collective::Group::Create(transport, options, transport.After(std::chrono::seconds(60)));
}

}  // namespace lockstep::strategy::testing
