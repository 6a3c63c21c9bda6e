// MasterSession: one client's graph on its tasks. The graph is placed whole; what a signature needs
// is cut out, partitioned and registered with the tasks once for each shape of the feeds, and then
// run by number. Thread-safe; runs of one signature too may be under way at the same time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/base/mutex.h"
#include "lockstep/cluster/master/master_interface.h"
#include "lockstep/cluster/master/step.h"
#include "lockstep/exec/partial_runs.h"
#include "lockstep/graph/graph.h"
#include "lockstep/pass/partition.h"
#include "lockstep/pass/place.h"
#include "lockstep/pass/specialize.h"

namespace lockstep::cluster {

// What a session has of its master.
struct MasterSessionEnv {
  ClusterSpec cluster;
  // The master's own task.
  int number = 0;
  // By number, for the tasks that the session uses.
  std::map<int, std::shared_ptr<WorkerStub>> workers;
  std::map<int, uint64_t> incarnations;
  pass::DeviceSet devices;
  RunningSteps* steps = nullptr;
  // May be null.
  Log* log = nullptr;
};

class MasterSession {
 public:
  MasterSession(uint64_t id, SessionConfig config, MasterSessionEnv env);
  MasterSession(const MasterSession&) = delete;
  MasterSession& operator=(const MasterSession&) = delete;

  // A graph that has all nodes of the one before, in its order, and is placed likewise.
  Result<uint64_t> SetGraph(std::unique_ptr<Graph> graph, uint64_t version) LS_EXCLUDES(mu_);

  Result<StepReply> Run(const StepRequest& request) LS_EXCLUDES(mu_);
  Result<uint64_t> PartialRunSetup(const SignatureNames& whole, const Deadline& deadline)
      LS_EXCLUDES(mu_);
  Result<uint64_t> MakeCallable(const SignatureNames& signature) LS_EXCLUDES(mu_);
  Status ReleaseCallable(uint64_t callable) LS_EXCLUDES(mu_);

  // Tells every task. Steps that run are ended.
  Status Close(const Deadline& deadline) LS_EXCLUDES(mu_);

  const pass::DeviceSet& devices() const { return env_.devices; }

 private:
  // Those whom a task has to be linked with for a graph.
  struct TaskPeers {
    std::shared_ptr<WorkerStub> stub;
    std::vector<TaskStart> peers;
  };

  // A signature with feeds of certain shapes, known to the tasks.
  struct Registered {
    uint64_t scope = 0;
    std::vector<Shape> shapes;
    std::vector<TaskShare> shares;
    std::vector<TaskPeers> peers;
    std::atomic<uint64_t> next_step = 1;
    // The session's count of broken links when its tasks were linked.
    std::atomic<uint64_t> linked_at = 0;
  };

  // A graph and what was made of it; replaced whole by SetGraph.
  struct GraphState {
    std::shared_ptr<const Graph> graph;
    pass::Placement placement;
    std::map<std::string, std::vector<std::shared_ptr<Registered>>> registered;
  };

  // A signature, and what ran before in the same step.
  struct Cut {
    SignatureNames names;
    std::vector<std::string> done = {};
  };

  Result<std::shared_ptr<const Graph>> CurrentGraph() LS_EXCLUDES(mu_);
  Result<std::shared_ptr<Registered>> Find(const Cut& cut, const std::vector<Tensor>& feeds,
                                           const Deadline& deadline) LS_EXCLUDES(mu_);
  Result<std::shared_ptr<Registered>> Register(const Cut& cut, const std::vector<Tensor>& feeds,
                                               const Deadline& deadline) LS_REQUIRES(mu_);
  // One step, or a part of it with the number of the step.
  Result<std::vector<Tensor>> RunCut(const Cut& cut, const StepRequest& request, int64_t number)
      LS_EXCLUDES(mu_);
  Result<std::vector<Tensor>> RunPart(const StepRequest& request) LS_EXCLUDES(mu_);
  Status RegisterWithTasks(pass::SpecializedGraph graph, Registered& registered,
                           const Deadline& deadline);
  // For each task those that it has transfers with, and the master.
  Result<std::map<int, std::set<int>>> PeersOf(const pass::PartitionedGraph& graph) const;
  // Has the tasks linked; links that there are stay.
  static Status Link(const Registered& registered, const Deadline& deadline);
  // The same after a link broke, with a few attempts: an end may not have noticed yet.
  Status LinkAgain(Registered& registered, const Deadline& deadline);
  Result<int> TaskOf(const std::string& device) const;
  void Deregister(GraphState& state);

  const uint64_t id_;
  const SessionConfig config_;
  const MasterSessionEnv env_;
  std::atomic<int64_t> next_step_number_ = 0;
  std::atomic<uint64_t> broken_links_ = 0;
  exec::PartialRuns partial_runs_;
  Mutex mu_;
  GraphState state_ LS_GUARDED_BY(mu_);
  uint64_t version_ LS_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, SignatureNames> callables_ LS_GUARDED_BY(mu_);
  uint64_t next_callable_ LS_GUARDED_BY(mu_) = 1;
  bool closed_ LS_GUARDED_BY(mu_) = false;
};

}  // namespace lockstep::cluster
