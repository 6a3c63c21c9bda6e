// Worker: what a task does for masters: it has devices and variables, keeps parts of graphs, and
// runs them in steps. In process; worker_service puts it behind RPC. Thread-safe.
//
// A graph is known by its scope, a random number that its master chose for all tasks. The master
// numbers its runs, upwards; several may be under way. Variables live in containers by name, as
// long as the task; sessions that are isolated have a container of their own.
//
// Errors: ABORTED for an unknown session or graph (this task has restarted), a run that came
// before, and an older incarnation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/spec/cluster_spec.h"
#include "lockstep/exec/cancellation.h"
#include "lockstep/exec/local_rendezvous.h"
#include "lockstep/exec/part_runner.h"
#include "lockstep/exec/variable_store.h"
#include "lockstep/net/transport.h"
#include "lockstep/pass/device_set.h"

namespace lockstep::cluster {

struct WorkerOptions {
  ClusterSpec cluster;
  int number = 0;
  int devices = 1;
  int threads_per_device = 1;
};

// Where the variables of a session live.
struct SessionPlace {
  std::string container;
  // In a container of its own.
  bool isolate = false;
};

struct WorkerPart {
  std::string device;
  std::string graph;  // pass::SerializePart
  // Positions among this task's feeds and fetches of a run.
  std::vector<int> feeds;
  std::vector<int> fetches;
};

struct WorkerGraph {
  uint64_t session = 0;
  uint64_t scope = 0;
  // Of this task, as the master knows it.
  uint64_t incarnation = 0;
  int num_feeds = 0;
  int num_fetches = 0;
  std::vector<WorkerPart> parts;
};

struct WorkerRun {
  uint64_t scope = 0;
  uint64_t step = 0;
  StepInfo info;
  Deadline deadline = Deadline::Infinite();
};

class Worker {
 public:
  // Tensors of other tasks travel over `transport`, where tasks have their numbers in the cluster.
  // INVALID_ARGUMENT for a number of devices or threads out of range.
  static Result<std::shared_ptr<Worker>> Create(WorkerOptions options, uint64_t incarnation,
                                                std::shared_ptr<net::Transport> transport);

  Worker(WorkerOptions options, uint64_t incarnation, std::shared_ptr<net::Transport> transport,
         std::unique_ptr<exec::PartRunner> runner);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Ends all runs and waits for them.
  ~Worker();

  uint64_t incarnation() const { return incarnation_; }

  std::vector<pass::DeviceAttributes> Devices() const;

  // Again for a session that there is: nothing happens.
  Status CreateSession(uint64_t session, const SessionPlace& place) LS_EXCLUDES(mu_);
  // With its graphs. One that is not there is gone already.
  void DeleteSession(uint64_t session) LS_EXCLUDES(mu_);

  Status RegisterGraph(const WorkerGraph& graph) LS_EXCLUDES(mu_);
  void DeregisterGraph(uint64_t scope) LS_EXCLUDES(mu_);

  // Blocks until the parts have run. Returns the fetches.
  Result<std::vector<Tensor>> RunGraph(const WorkerRun& run, std::span<const Tensor> feeds,
                                       exec::Cancellation& cancellation) LS_EXCLUDES(mu_);
  // Ends a run, one that is to come too.
  void CleanupGraph(uint64_t scope, uint64_t step, const Status& why) LS_EXCLUDES(mu_);

  // Forgets the variables of containers ("" is the default one); none named: of all. Graphs that
  // use them go too.
  void CleanupAll(const std::vector<std::string>& containers) LS_EXCLUDES(mu_);

  // Ends every run under way: a task is lost.
  void AbortRuns(const Status& why) LS_EXCLUDES(mu_);
  // The same, and there will be no other.
  void Stop(const Status& why) LS_EXCLUDES(mu_);

  // Variables of a container.
  std::shared_ptr<exec::VariableStore> container(const std::string& name);
  // For tests.
  size_t num_graphs() const LS_EXCLUDES(mu_);

 private:
  struct Graph {
    uint64_t session = 0;
    std::string container;
    uint64_t handle = 0;  // of the runner
    int num_feeds = 0;
    int num_fetches = 0;
    // For each feed and fetch of the parts, one part behind the other, its position.
    std::vector<int> feeds;
    std::vector<int> fetches;
    // Guarded by Worker::mu_. Steps up to `ended` are over, and so are those in `ended_beyond`.
    uint64_t ended = 0;
    std::set<uint64_t> ended_beyond;
    // Ends that were announced for runs that have not begun.
    std::map<uint64_t, Status> doomed;
    std::map<uint64_t, exec::Cancellation*> running;
    // No run begins any more.
    bool forgotten = false;

    bool IsOver(uint64_t step) const { return step <= ended || ended_beyond.count(step) > 0; }
  };

  Result<exec::PeerNumber> PeerOf(const std::string& device) const;
  Result<std::shared_ptr<Graph>> FindGraph(uint64_t scope) const LS_REQUIRES(mu_);
  Status BeginRun(const WorkerRun& run, Graph& graph, exec::Cancellation& cancellation)
      LS_EXCLUDES(mu_);
  void EndRun(const WorkerRun& run, Graph& graph) LS_EXCLUDES(mu_);
  void Forget(uint64_t scope, Graph& graph) LS_REQUIRES(mu_);
  void ForgetGraphs(const std::function<bool(const Graph&)>& gone) LS_REQUIRES(mu_);
  std::string Name() const;

  const WorkerOptions options_;
  const uint64_t incarnation_;
  const std::shared_ptr<net::Transport> transport_;
  const std::unique_ptr<exec::PartRunner> runner_;
  exec::LocalRendezvous rendezvous_;
  mutable Mutex mu_;
  CondVar run_ended_;
  // The container of each.
  std::map<uint64_t, std::string> sessions_ LS_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<Graph>> graphs_ LS_GUARDED_BY(mu_);
  Status stopped_ LS_GUARDED_BY(mu_);
  int runs_ LS_GUARDED_BY(mu_) = 0;
};

}  // namespace lockstep::cluster
