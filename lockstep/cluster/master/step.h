// One step of a registered graph on all its tasks. The first error that is no mere consequence of
// another one ends the others and is what the client gets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/master/worker_stub.h"
#include "lockstep/net/progress.h"

namespace lockstep::cluster {

// The share of one task in a graph.
struct TaskShare {
  int number = 0;
  std::shared_ptr<WorkerStub> stub;
  // For each of the task's feeds and fetches its position in the signature.
  std::vector<int> feeds;
  std::vector<int> fetches;
};

// The steps of a master that are under way, so that a lost task ends those that need it.
// Thread-safe.
class RunningSteps {
 public:
  // By which runs at other tasks come to an end; must outlive it.
  explicit RunningSteps(net::Progress& progress) : progress_(progress) {}

  // Blocks until no task works on the step any more. `shares` with this process's task last.
  Result<std::vector<Tensor>> Run(const WorkerRun& run, const std::vector<TaskShare>& shares,
                                  const std::vector<Tensor>& feeds, size_t num_fetches)
      LS_EXCLUDES(mu_);

  // Ends the steps in which a task of `lost` takes part; later ones with one of them fail at once.
  void SetLost(std::map<int, Status> lost) LS_EXCLUDES(mu_);

  // OK if it is not lost.
  Status LostStatus(int number) const LS_EXCLUDES(mu_);

  bool IsLost(int number) const { return !LostStatus(number).ok(); }

  // Ends all, and every later one.
  void Close(const Status& why) LS_EXCLUDES(mu_);

 private:
  struct Step;

  net::Progress& progress_;
  mutable Mutex mu_;
  std::set<std::shared_ptr<Step>> steps_ LS_GUARDED_BY(mu_);
  std::map<int, Status> lost_ LS_GUARDED_BY(mu_);
  Status closed_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
