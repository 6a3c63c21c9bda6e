// Master: runs sessions on the workers of a cluster; every task has one. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "lockstep/base/log.h"
#include "lockstep/base/mutex.h"
#include "lockstep/cluster/master/master_interface.h"
#include "lockstep/cluster/master/master_session.h"
#include "lockstep/cluster/spec/server_def.h"
#include "lockstep/cluster/worker/request_ids.h"

namespace lockstep::cluster {

struct MasterOptions {
  ServerDef def;
  // A session that nobody used for so long is closed; 0: never.
  std::chrono::milliseconds session_idle_timeout{0};
  // Where placements and sessions that were closed are reported; null: nowhere.
  Log* log = nullptr;
};

class Master : public MasterInterface {
 public:
  // The worker of a task, by number.
  using StubMaker = std::function<Result<std::shared_ptr<WorkerStub>>(int)>;

  // The catalog must outlive it, and `stubs` keep `progress` alive (RunningSteps).
  Master(MasterOptions options, const OpCatalog& catalog, StubMaker stubs, net::Progress& progress);
  ~Master() override;

  Result<SessionHandle> CreateSession(const std::string& graph, const SessionConfig& config,
                                      const Deadline& deadline) override LS_EXCLUDES(mu_);
  Result<SessionHandle> ExtendSession(const SessionHandle& handle, const std::string& graph,
                                      const Deadline& deadline) override LS_EXCLUDES(mu_);
  Result<StepReply> RunStep(const StepRequest& request) override LS_EXCLUDES(mu_);
  Result<uint64_t> PartialRunSetup(uint64_t session, const SignatureNames& whole,
                                   const Deadline& deadline) override LS_EXCLUDES(mu_);
  Result<uint64_t> MakeCallable(uint64_t session, const SignatureNames& signature,
                                const Deadline& deadline) override LS_EXCLUDES(mu_);
  Status ReleaseCallable(uint64_t session, uint64_t callable, const Deadline& deadline) override
      LS_EXCLUDES(mu_);
  Status CloseSession(uint64_t session, const Deadline& deadline) override LS_EXCLUDES(mu_);
  Status KeepSession(uint64_t session, const Deadline& deadline) override LS_EXCLUDES(mu_);
  // Session 0: of every task that this one sees.
  Result<std::vector<pass::DeviceAttributes>> ListDevices(uint64_t session,
                                                          const Deadline& deadline) override
      LS_EXCLUDES(mu_);
  Status Reset(const std::vector<std::string>& containers, const Deadline& deadline) override
      LS_EXCLUDES(mu_);

  // Steps that need one of these end, and so do later ones.
  void SetLost(std::map<int, Status> lost) { steps_.SetLost(std::move(lost)); }

  // Ends all steps and every later one.
  void Close(const Status& why) LS_EXCLUDES(mu_);

  size_t num_sessions() const LS_EXCLUDES(mu_);

 private:
  struct Entry {
    std::shared_ptr<MasterSession> session;
    // The last call, and the last sign of life of the client.
    Deadline::Clock::time_point used;
    Deadline::Clock::time_point heard;
    std::chrono::milliseconds lease;
  };

  struct Found {
    std::map<int, std::shared_ptr<WorkerStub>> workers;
    std::map<int, uint64_t> incarnations;
    std::vector<pass::DeviceAttributes> devices;
  };

  Result<std::unique_ptr<Graph>> Parse(const std::string& graph) const;
  std::vector<int> TasksOf(const std::vector<DeviceName>& filters) const;
  // Asks all at once, so that one that is not there costs the deadline once.
  Result<Found> FindWorkers(const std::vector<int>& numbers, const Deadline& deadline) const;
  Result<std::shared_ptr<MasterSession>> Find(uint64_t session) LS_EXCLUDES(mu_);
  // Closes sessions that nobody needs any more, until Close.
  void WatchSessions() LS_EXCLUDES(mu_);
  // The time when the next one may be due.
  Deadline TakeIdle(std::vector<std::shared_ptr<MasterSession>>& idle) LS_REQUIRES(mu_);

  const MasterOptions options_;
  const OpCatalog& catalog_;
  const StubMaker stubs_;
  RunningSteps steps_;
  mutable Mutex mu_;
  std::map<uint64_t, Entry> sessions_ LS_GUARDED_BY(mu_);
  RequestIds requests_ LS_GUARDED_BY(mu_);
  CondVar changed_;
  Status closed_ LS_GUARDED_BY(mu_);
  // Made with the first session that may have to be closed.
  std::thread watch_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
