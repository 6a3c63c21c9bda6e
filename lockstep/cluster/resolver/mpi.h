// The cluster of processes that an MPI launcher started: Open MPI's mpirun (OMPI_COMM_WORLD_RANK,
// _SIZE, _LOCAL_RANK, _LOCAL_SIZE), or any launcher that speaks PMIx (PMIX_RANK).
//
// Neither says on which hosts the other processes run. If all of them run on this host (Open MPI
// says so), loopback is all that is needed: `mpirun -n 4` works as it is. Otherwise the hosts must
// be given, by --hosts or --host-file, the same to every task, in the order in which the launcher
// fills them (mpirun --hostfile does the same). PMIx does not even say how many there are: then the
// slots of the hosts do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster {

struct HostSlots {
  std::string host;
  int slots = 1;
};

struct HostSlotsList {
  std::vector<HostSlots> hosts;
  // "--hosts", or the path of the file.
  std::string source;
};

// "a:2,b,n[1-3]:4": hosts as Slurm compresses them, each with its slots, 1 if not given.
Result<std::vector<HostSlots>> ParseHosts(std::string_view text);

// Open MPI's host file: a host a line, "slots=N" behind it, # comments. `path` is for messages.
Result<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& path);

bool UnderOpenMpi(const Variables& variables);
bool UnderPmix(const Variables& variables);

Result<Resolution> ResolveOpenMpi(const Variables& variables, const HostSlotsList& hosts,
                                  const RankOptions& options);
Result<Resolution> ResolvePmix(const Variables& variables, const HostSlotsList& hosts,
                               const RankOptions& options);

}  // namespace lockstep::cluster
