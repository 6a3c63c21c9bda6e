// One answer from all that may describe the cluster. The first of these that is there is used,
// alone; values of two are never mixed, and what is passed over is said in the notes:
//
//   1. flags: --spec or --cluster FILE, with --job and --task
//   2. TF_CONFIG: somebody, or an operator, wrote it for this task
//   3. Open MPI: inside a Slurm job, mpirun is the inner of the two launchers
//   4. Slurm
//   5. PMIx, which says least, and which srun and mpirun speak as well
//
// None of them: the process is alone. An empty TF_CONFIG is none.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/mpi.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster {

struct ClusterFlags {
  std::optional<std::string> spec;
  // The path and content of --cluster.
  std::optional<std::string> file_path;
  std::string file_text;
  std::optional<std::string> job;
  std::optional<int> task;
  HostSlotsList hosts;
  RankOptions ranks;
};

Result<Resolution> ResolveCluster(const Variables& variables, const ClusterFlags& flags);

// Of "NAME=value" entries up to a null pointer, such as `environ`: what the resolvers and
// ReadSecurity look at.
Variables CollectVariables(const char* const* environment);

}  // namespace lockstep::cluster
