// Memory planning: an offset in one arena for every value that lives inside a step, by liveness
// along the schedule. A value may take over the buffer of one that ends where it begins, if the
// kernel allows it.
#pragma once

#include <vector>

#include "lockstep/exec/internal/plan_graph.h"

namespace lockstep::exec {

struct MemoryPlan {
  // For each value in the arena its offset in bytes; unused for others.
  std::vector<size_t> offsets;
  size_t arena_bytes = 0;
  // The most that any kernel needs.
  size_t scratch_bytes = 0;
};

MemoryPlan PlanMemory(const PlanGraph& plan, const std::vector<int>& order);

}  // namespace lockstep::exec
