// RunService: runs a task's parts of steps when the masters of other tasks ask for it over their
// data links. RunClient is the other end. Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/run_threads.h"
#include "lockstep/cluster/worker/task_links.h"
#include "lockstep/cluster/worker/worker.h"

namespace lockstep::cluster::internal {

class RunService {
 public:
  RunService(std::shared_ptr<Worker> worker, std::shared_ptr<TaskLinks> links);
  RunService(const RunService&) = delete;
  RunService& operator=(const RunService&) = delete;
  // Stops; the transport must be closed.
  ~RunService();

  // Links to these tasks, whose requests are then served as long as the links last.
  Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline);

  // Returns when nothing runs any more. The transport must be closed, and the worker stopped.
  void Stop() LS_EXCLUDES(mu_);

 private:
  void Listen(int task) LS_EXCLUDES(mu_);
  // Waits for the next request of a task.
  void Post(int task) LS_EXCLUDES(mu_);
  void OnRequest(int task, const Status& status, const std::shared_ptr<std::string>& message)
      LS_EXCLUDES(mu_);
  void Serve(int task, const std::string& message);
  void Reply(int task, uint64_t run, const Deadline& deadline,
             const Result<std::vector<Tensor>>& fetches);

  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<TaskLinks> links_;
  net::Transport& transport_;
  RunThreads threads_;
  Mutex mu_;
  CondVar changed_;
  std::set<int> listening_ LS_GUARDED_BY(mu_);
  // Callbacks that will come, or have not returned.
  int posted_ LS_GUARDED_BY(mu_) = 0;
};

}  // namespace lockstep::cluster::internal
