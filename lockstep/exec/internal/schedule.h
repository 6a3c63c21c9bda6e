// Scheduling: the order in which the steps of a plan run on the device's thread.
//
// Besides producers and control inputs, variables order steps: whoever reads a variable and does
// not follow one of its writers (by data or control) runs before that writer. So all reads of a
// step see the values from before the step unless the program says otherwise, whatever the order of
// the nodes. Updates and fetches run as soon as they may, which frees what they read. A plan with
// transfers keeps to the order of its graph, which other parts of the placed graph rely on.
#pragma once

#include <vector>

#include "lockstep/exec/internal/plan_graph.h"

namespace lockstep::exec {

struct Schedule {
  std::vector<int> order;  // indices of PlanGraph::steps
  // For each variable: some step reads it, or writes part of it, without following its
  // initialisation.
  std::vector<bool> needs_initialized;
  // For each variable: some step makes it valid.
  std::vector<bool> initializes;
};

// Errors: variables that are exchanged with each other without a copy in between, and a part of a
// placed graph whose order breaks the rule above.
Result<Schedule> ScheduleSteps(const PlanGraph& plan);

}  // namespace lockstep::exec
