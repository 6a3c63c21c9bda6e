// RunClient: asks other tasks over their data links to run their parts of steps. Thread-safe.
//
//   std::function<void()> give_up = client.Run(task, run, feeds, [](auto result) { ... });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/master/worker_stub.h"
#include "lockstep/net/transport.h"

namespace lockstep::cluster::internal {

class RunClient {
 public:
  explicit RunClient(std::shared_ptr<net::Transport> transport);
  RunClient(const RunClient&) = delete;
  RunClient& operator=(const RunClient&) = delete;
  // Waits for what is under way, which ends by its deadlines or with the transport.
  ~RunClient();

  Status LinkStatus(int task) const { return transport_->peer_status(task); }

  // As WorkerStub::RunGraph; `task` must be linked.
  std::function<void()> Run(int task, const WorkerRun& run, const std::vector<Tensor>& feeds,
                            WorkerStub::RunDone done) LS_EXCLUDES(mu_);

 private:
  class Call;

  void OnEnd() LS_EXCLUDES(mu_);

  const std::shared_ptr<net::Transport> transport_;
  std::atomic<uint64_t> next_;
  Mutex mu_;
  CondVar ended_;
  int running_ LS_GUARDED_BY(mu_) = 0;
};

}  // namespace lockstep::cluster::internal
