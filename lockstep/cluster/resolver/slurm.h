// The cluster of a Slurm job step: one task for each process that srun started.
//
// Read are SLURM_PROCID, SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS, SLURM_STEP_TASKS_PER_NODE and
// SLURM_DISTRIBUTION (with SLURM_DIST_PLANESIZE), and as a check SLURM_NODEID and SLURM_LOCALID.
// Where a Slurm sets no SLURM_STEP_ form, SLURM_NODELIST, SLURM_NTASKS and SLURM_TASKS_PER_NODE
// stand for it. These describe all components of a heterogeneous step (srun --het-group=0,1).
// Numbers that contradict each other are refused: tasks that come to different clusters would wait
// for each other for ever.
#pragma once

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster {

// Was this process started by srun? In a batch script or an allocation it was not.
bool InSlurmStep(const Variables& variables);

// In an allocation at all.
bool InSlurmJob(const Variables& variables);

// Only in a step.
Result<Resolution> ResolveSlurm(const Variables& variables, const RankOptions& options);

}  // namespace lockstep::cluster
