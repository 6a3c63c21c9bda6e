// MasterService: a Master behind RPC. Every call gets a thread of its own.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/internal/task_threads.h"
#include "lockstep/cluster/master/master_interface.h"

namespace lockstep::cluster::internal {

// The handlers keep the first alive; `threads` must outlive their calls.
void AddMasterHandlers(RpcHandlers& handlers, const std::shared_ptr<MasterInterface>& master,
                       TaskThreads& threads);

}  // namespace lockstep::cluster::internal
