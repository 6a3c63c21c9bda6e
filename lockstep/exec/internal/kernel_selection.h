// Kernel selection: asks every op of a specialised graph for a kernel, negotiates layouts, and
// inserts the reorders and type conversions that are left.
//
// An op without a kernel for bfloat16 runs in float32 between conversions; one without a kernel for
// some other type runs its float64 reference, which is slow and right.
#pragma once

#include "lockstep/exec/internal/plan_graph.h"
#include "lockstep/pass/specialize.h"

namespace lockstep::exec {

Result<PlanGraph> SelectKernels(const pass::SpecializedGraph& graph, VariableStore& store,
                                int threads);

}  // namespace lockstep::exec
