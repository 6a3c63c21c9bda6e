// WorkerStub: a worker as its master sees it, here or far away. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/worker/worker.h"

namespace lockstep::cluster {

class WorkerStub {
 public:
  using RunDone = std::function<void(Result<std::vector<Tensor>>)>;

  virtual ~WorkerStub() = default;

  // Waits for the task to be there.
  virtual Result<std::vector<pass::DeviceAttributes>> GetStatus(const Deadline& deadline) = 0;
  virtual Status CreateSession(uint64_t session, const SessionPlace& place,
                               const Deadline& deadline) = 0;
  virtual Status DeleteSession(uint64_t session, const Deadline& deadline) = 0;
  virtual Status RegisterGraph(const WorkerGraph& graph, const Deadline& deadline) = 0;
  // Without an answer.
  virtual void DeregisterGraph(uint64_t scope) = 0;
  // `done` is called exactly once; may block until then. What is returned, if anything, gives the
  // task up: `done` is called soon, whether the task answers or not.
  virtual std::function<void()> RunGraph(const WorkerRun& run, const std::vector<Tensor>& feeds,
                                         RunDone done) = 0;
  // Ends a run; without an answer.
  virtual void CleanupGraph(uint64_t scope, uint64_t step, const Status& why) = 0;
  virtual Status CleanupAll(const std::vector<std::string>& containers,
                            const Deadline& deadline) = 0;
};

// The worker of this process, without RPC.
class LocalWorkerStub : public WorkerStub {
 public:
  explicit LocalWorkerStub(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}

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
};

}  // namespace lockstep::cluster
