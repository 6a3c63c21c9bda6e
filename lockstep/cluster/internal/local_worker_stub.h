// LocalWorkerStub: the worker of this process, without RPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/internal/run_service.h"
#include "lockstep/cluster/master/worker_stub.h"

namespace lockstep::cluster::internal {

class LocalWorkerStub : public WorkerStub {
 public:
  LocalWorkerStub(std::shared_ptr<Worker> worker, std::shared_ptr<RunService> runs)
      : worker_(std::move(worker)), runs_(std::move(runs)) {}

  Result<std::vector<pass::DeviceAttributes>> GetStatus(const Deadline& /*deadline*/) override {
    return worker_->Devices();
  }

  Status CreateSession(uint64_t session, const SessionPlace& place,
                       const Deadline& /*deadline*/) override {
    return worker_->CreateSession(session, place);
  }

  Status DeleteSession(uint64_t session, const Deadline& /*deadline*/) override {
    worker_->DeleteSession(session);
    return OkStatus();
  }

  Status RegisterGraph(const WorkerGraph& graph, const Deadline& /*deadline*/) override {
    return worker_->RegisterGraph(graph);
  }

  Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) override {
    return runs_->Connect(tasks, deadline);
  }

  void DeregisterGraph(uint64_t scope) override { worker_->DeregisterGraph(scope); }

  std::function<void()> RunGraph(const WorkerRun& run, const std::vector<Tensor>& feeds,
                                 RunDone done) override {
    exec::Cancellation cancellation;
    done(worker_->RunGraph(run, feeds, cancellation));
    return nullptr;
  }

  void CleanupGraph(uint64_t scope, uint64_t step, const Status& why) override {
    worker_->CleanupGraph(scope, step, why);
  }

  Status CleanupAll(const std::vector<std::string>& containers,
                    const Deadline& /*deadline*/) override {
    worker_->CleanupAll(containers);
    return OkStatus();
  }

 private:
  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<RunService> runs_;
};

}  // namespace lockstep::cluster::internal
