// Server: one task of a cluster in this process: it listens, is known to the coordinator (which it
// hosts if it is the chief), computes for others and runs their sessions. Several may live in one
// process. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(auto server, Server::Create(def, {}));
//   LS_TRY(server->Start(Deadline::After(60s)));   // returns when every task is there
//   LS_TRY(server->Join(Deadline::Infinite()));    // serves until the job is over
//   LS_TRY(server->Stop(Deadline::After(10s)));
//
//   kNew ---- Start ----> kStarted ---- Stop ----> kStopped ---- Start ----> kStarted
//
// A job is over when no task has anything to do any more: every one that was not in Join has
// stopped. So ps tasks end by themselves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/log.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/coordinator/coordinator_client.h"
#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/cluster/spec/server_def.h"
#include "lockstep/net/transport.h"

namespace lockstep::cluster {

struct ServerOptions {
  SecurityOptions security = {};
  // A task that is dead or silent is known to all within twice this time. The chief's counts.
  std::chrono::milliseconds heartbeat{5000};
  // Of this task: CPU devices, and threads that one kernel may use on a device.
  int devices = 1;
  int threads_per_device = 1;
  // A session that nobody used for so long is closed; 0: never. (One whose client is gone is
  // closed anyway: RemoteSessionOptions::lease.)
  std::chrono::milliseconds session_idle_timeout{0};
  // For the transport `sim`: connects all tasks already, and is closed when the server stops.
  std::shared_ptr<net::Transport> sim_transport = nullptr;
  // Where to report what happens; null: nowhere. Must outlive the server.
  Log* log = nullptr;
};

class MasterInterface;

class Server {
 public:
  enum class State { kNew, kStarted, kStopped };

  static Result<std::unique_ptr<Server>> Create(ServerDef def, ServerOptions options);

  Server(ServerDef def, ServerOptions options, int coordinator);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Stops without waiting for anybody.
  ~Server();

  // Listens, registers, and waits for the tasks that this one sees. On an error, which says what is
  // wrong or who is missing, nothing is left running and the state is as before.
  Status Start(const Deadline& deadline);

  // Returns when there are data links to all tasks that this one sees, who have to do the same: for
  // those that exchange tensors without graphs (collective groups). Errors name who did not.
  Status LinkTasks(const Deadline& deadline);

  // Serves until the job is over (OK), a task that this one sees is lost or gave up (UNAVAILABLE,
  // with its name and why), this server is stopped (CANCELLED), or the deadline passes.
  Status Join(const Deadline& deadline);

  // Leaves the job and frees the port. The chief first waits until the others have left; when the
  // deadline passes it stops anyway and says who has not. A task that could not do its work says
  // why with `outcome`: then the others' Join ends with it, instead of with success.
  Status Stop(const Deadline& deadline, const Status& outcome = OkStatus());

  State state() const;

  const ServerDef& def() const { return def_; }

  // What a session connects to: "grpc://127.0.0.1:2222". With the port that was found for port 0.
  std::string target() const;

  // Chosen at random at each start; 0 before.
  uint64_t incarnation() const;

  // Barriers and shared values of the job; null unless started.
  CoordinatorClient* coordinator() const;

  // Runs sessions without RPC (RemoteSession); null unless started. What it gives out stays valid,
  // and fails once the server has stopped.
  std::shared_ptr<MasterInterface> master() const;

  // Over which tensors and runs travel; null unless started.
  std::shared_ptr<net::Transport> transport() const;

  MembershipView view() const;

  // The loss of a task that this one sees, or why one gave up, or why this one is out of the job;
  // OK while all is well.
  Status failure() const;

 private:
  struct Running;

  Status StartLocked(const Deadline& deadline);
  Status MakeLinks(Running& running, uint64_t incarnation) const;
  // Worker, master and what they need.
  Status MakeServices(Running& running, uint64_t incarnation) const;
  Status Connect(Running& running, uint64_t incarnation);
  Status AwaitOthers(Running& running, const Deadline& deadline) const;
  void OnView(const MembershipView& view);
  // Of the coordinator's host: who left, and who came back.
  void LogChanges(const MembershipView& before, const MembershipView& now) const;
  void OnFailure(const Status& why);
  std::vector<int> StillActive(const MembershipView& view) const;
  // All that this task sees; none if the view lacks one of them.
  std::vector<TaskStart> PresentTasks(const MembershipView& view) const;

  const ServerDef def_;
  const ServerOptions options_;
  // The number of the task that hosts the coordinator.
  const int coordinator_;
  // One Start or Stop at a time.
  mutable Mutex lifecycle_mu_;
  mutable Mutex mu_;
  CondVar changed_;
  State state_ LS_GUARDED_BY(mu_) = State::kNew;
  int port_ LS_GUARDED_BY(mu_);
  uint64_t incarnation_ LS_GUARDED_BY(mu_) = 0;
  MembershipView view_ LS_GUARDED_BY(mu_);
  Status failure_ LS_GUARDED_BY(mu_);
  std::shared_ptr<Running> running_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
