// WorkerStub: a worker as its master sees it, here or far away. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/coordinator/membership_view.h"
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
  // Makes data links to these tasks, which are asked for the other end at the same time.
  virtual Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) = 0;

  // Why the data link over which it is asked to run is broken; OK if it is not known to be.
  virtual Status LinkStatus() const { return OkStatus(); }

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

}  // namespace lockstep::cluster
