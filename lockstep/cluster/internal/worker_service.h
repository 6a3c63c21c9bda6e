// WorkerService: a Worker behind RPC. What takes time, such as compiling graphs, gets threads of
// its own, so that calls never wait for each other. Runs do not come here (RunService).
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/internal/run_service.h"
#include "lockstep/cluster/internal/task_threads.h"
#include "lockstep/cluster/worker/worker.h"

namespace lockstep::cluster::internal {

// The handlers keep the first two alive; `threads` must outlive their calls.
void AddWorkerHandlers(RpcHandlers& handlers, const std::shared_ptr<Worker>& worker,
                       const std::shared_ptr<RunService>& runs, TaskThreads& threads);

}  // namespace lockstep::cluster::internal
