// RpcWorkerStub: a worker of another task.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/master/worker_stub.h"

namespace lockstep::cluster::internal {

class RpcWorkerStub : public WorkerStub {
 public:
  explicit RpcWorkerStub(std::shared_ptr<RpcChannel> channel) : channel_(std::move(channel)) {}

  Result<std::vector<pass::DeviceAttributes>> GetStatus(const Deadline& deadline) override;
  Status CreateSession(uint64_t session, const SessionPlace& place,
                       const Deadline& deadline) override;
  Status DeleteSession(uint64_t session, const Deadline& deadline) override;
  Status RegisterGraph(const WorkerGraph& graph, const Deadline& deadline) override;
  void DeregisterGraph(uint64_t scope) override;
  std::function<void()> RunGraph(const WorkerRun& run, const std::vector<Tensor>& feeds,
                                 RunDone done) override;
  void CleanupGraph(uint64_t scope, uint64_t step, const Status& why) override;
  Status CleanupAll(const std::vector<std::string>& containers, const Deadline& deadline) override;

 private:
  const std::shared_ptr<RpcChannel> channel_;
};

}  // namespace lockstep::cluster::internal
