// WorkerService: a Worker behind RPC. Runs, and graphs that are compiled, get threads of their own,
// so that calls never wait for each other.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/internal/task_threads.h"
#include "lockstep/cluster/worker/worker.h"

namespace lockstep::cluster::internal {

// The handlers keep the first alive; `threads` must outlive their calls.
void AddWorkerHandlers(RpcHandlers& handlers, const std::shared_ptr<Worker>& worker,
                       TaskThreads& threads);

}  // namespace lockstep::cluster::internal
