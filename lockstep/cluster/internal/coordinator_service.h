// CoordinatorService: a Coordinator behind RPC, with the thread that drives its clock.
#pragma once

#include <chrono>
#include <memory>
#include <thread>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/coordinator/coordinator.h"
#include "lockstep/cluster/internal/rpc_server.h"

namespace lockstep::cluster::internal {

class CoordinatorService {
 public:
  // `incarnation` is that of the task that hosts it.
  static Result<std::unique_ptr<CoordinatorService>> Create(const ClusterSpec& cluster,
                                                            std::chrono::milliseconds heartbeat,
                                                            uint64_t incarnation,
                                                            Coordinator::OnRefused on_refused);

  CoordinatorService(std::shared_ptr<Coordinator> coordinator, uint64_t incarnation);
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;
  // Stops.
  ~CoordinatorService();

  // They keep the coordinator alive, not this object.
  void AddHandlers(RpcHandlers& handlers) const;

  Coordinator& coordinator() { return *coordinator_; }

  std::shared_ptr<Coordinator> shared() const { return coordinator_; }

  // Ends every wait with `why`. The RPC server may be shut down after this.
  void Stop(const Status& why) LS_EXCLUDES(mu_);

 private:
  void Tick() LS_EXCLUDES(mu_);

  const std::shared_ptr<Coordinator> coordinator_;
  const uint64_t incarnation_;
  Mutex mu_;
  CondVar stop_;
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  std::thread clock_;
};

}  // namespace lockstep::cluster::internal
