// RpcWorkerStub: a worker of another task. Runs go over the data link, everything else by RPC.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/run_client.h"
#include "lockstep/cluster/master/worker_stub.h"
#include "lockstep/cluster/worker/lost_tasks.h"

namespace lockstep::cluster::internal {

class RpcWorkerStub : public WorkerStub {
 public:
  // `number` is the task's. Calls end when it is lost; GetStatus waits for it to come back.
  RpcWorkerStub(std::shared_ptr<RpcChannel> channel, std::shared_ptr<RunClient> runs,
                std::shared_ptr<const LostTasks> lost, int number)
      : channel_(std::move(channel)),
        runs_(std::move(runs)),
        lost_(std::move(lost)),
        number_(number) {}

  Result<std::vector<pass::DeviceAttributes>> GetStatus(const Deadline& deadline) override;
  Status CreateSession(uint64_t session, const SessionPlace& place,
                       const Deadline& deadline) override;
  Status DeleteSession(uint64_t session, const Deadline& deadline) override;
  Status RegisterGraph(const WorkerGraph& graph, const Deadline& deadline) override;
  Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) override;

  Status LinkStatus() const override { return runs_->LinkStatus(number_); }

  void DeregisterGraph(uint64_t scope) override;
  std::function<void()> RunGraph(const WorkerRun& run, const std::vector<Tensor>& feeds,
                                 RunDone done) override;
  void CleanupGraph(uint64_t scope, uint64_t step, const Status& why) override;
  Status CleanupAll(const std::vector<std::string>& containers, const Deadline& deadline) override;

 private:
  Status Call(std::string_view method, Result<std::string> body, const Deadline& deadline) const;

  const std::shared_ptr<RpcChannel> channel_;
  const std::shared_ptr<RunClient> runs_;
  const std::shared_ptr<const LostTasks> lost_;
  const int number_;
};

}  // namespace lockstep::cluster::internal
