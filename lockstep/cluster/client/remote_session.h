// RemoteSession: runs parts of a graph on the tasks of a cluster, through the master of one of
// them: that of a server in this process (no RPC then), or of one at an address. The surface is
// that of exec::Session. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(auto session, RemoteSession::Create(graph, "grpc://host:2222", options));
//   LS_TRY(session->Initialize());
//   LS_ASSIGN_OR_RETURN(std::vector<Tensor> out, session->Run({{x, batch}}, {loss}, {train_op}));
//
// Nodes run where the graph's device names say; variables stay in the tasks when the session ends,
// and another session finds them under their names. A graph that has grown is sent again.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/master/master_interface.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/graph/graph.h"

namespace lockstep::cluster {

struct RemoteSessionOptions {
  // Device filters, container, seed and more: master_interface.h. Isolation, soft placement and
  // its log are the server's business unless `config.server_defaults` is false.
  SessionConfig config = {};
  SecurityOptions security = {};
  // To connect, and for every task of the session to answer.
  std::chrono::milliseconds connect_timeout{60'000};
  // A session by target ends when its client was not heard of for so long; 0: it stays until it is
  // closed. The client gives signs of life by itself.
  std::chrono::milliseconds lease{60'000};
  // Of one step, unless a call says otherwise.
  std::chrono::milliseconds step_timeout{600'000};
};

struct RunSettings {
  // 0: the session's.
  std::chrono::milliseconds timeout{0};
  // Filled with where every node runs, if given.
  std::string* placement = nullptr;
};

class RemoteSession {
 public:
  using FeedList = std::vector<std::pair<Value, Tensor>>;

  // A signature that was prepared: no names travel with its runs. It refers to its session, which
  // must outlive it.
  class Callable {
   public:
    // One tensor per feed of the signature.
    Result<std::vector<Tensor>> Run(std::vector<Tensor> feeds, const RunSettings& settings = {});

   private:
    friend class RemoteSession;

    Callable(RemoteSession& session, uint64_t id) : session_(&session), id_(id) {}

    RemoteSession* session_;
    uint64_t id_;
  };

  // The graph must outlive the session and may grow while no call is running. Targets are
  // "grpc://host:port".
  static Result<std::unique_ptr<RemoteSession>> Create(const Graph& graph,
                                                       const std::string& target,
                                                       const RemoteSessionOptions& options);
  // By the server's own master. The server must be started and outlive the session.
  static Result<std::unique_ptr<RemoteSession>> Create(const Graph& graph, const Server& server,
                                                       const RemoteSessionOptions& options);

  RemoteSession(const Graph& graph, std::shared_ptr<MasterInterface> master,
                RemoteSessionOptions options, SessionHandle handle);
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;
  // Closes.
  ~RemoteSession();

  // Runs every assignment in the graph's collection of initialisers.
  Status Initialize();

  // One tensor for each fetch.
  Result<std::vector<Tensor>> Run(const FeedList& feeds, const std::vector<Value>& fetches,
                                  const std::vector<Node*>& targets = {},
                                  const RunSettings& settings = {});
  Result<std::vector<Tensor>> RunByName(const std::vector<std::pair<std::string, Tensor>>& feeds,
                                        const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets = {},
                                        const RunSettings& settings = {});

  // A step whose feeds and fetches come in several calls, as exec::Session does it; the settings'
  // timeout is that of the whole run. Each value is fed and each fetched once: a second time is
  // INVALID_ARGUMENT, and leaves the run as it was. The run ends with the last of what was
  // announced, with its deadline, with the session, and when the graph grows; whoever has lost
  // interest need not do anything: until then it holds tensors and nothing else.
  Result<uint64_t> PartialRunSetup(const std::vector<Value>& feeds,
                                   const std::vector<Value>& fetches,
                                   const std::vector<Node*>& targets = {},
                                   const RunSettings& settings = {});
  Result<std::vector<Tensor>> PartialRun(uint64_t run, const FeedList& feeds,
                                         const std::vector<Value>& fetches,
                                         const std::vector<Node*>& targets = {},
                                         const RunSettings& settings = {});

  // ReleaseCallable frees what the master keeps for it before the session ends.
  Result<Callable> MakeCallable(const std::vector<Value>& feeds, const std::vector<Value>& fetches,
                                const std::vector<Node*>& targets = {});
  Status ReleaseCallable(const Callable& callable);

  Result<std::vector<pass::DeviceAttributes>> ListDevices();

  // Frees what the tasks keep for it, except variables. Later calls are errors.
  Status Close();

  // Forgets the variables of containers ("" is the default one) in every task that the master at
  // the target sees, and closes its sessions; none named: all containers.
  static Status Reset(const std::string& target, const std::vector<std::string>& containers,
                      const SecurityOptions& security, const Deadline& deadline);
  // The same by the server's own master.
  static Status Reset(const Server& server, const std::vector<std::string>& containers,
                      const Deadline& deadline);

 private:
  static Result<std::unique_ptr<RemoteSession>> Open(const Graph& graph,
                                                     std::shared_ptr<MasterInterface> master,
                                                     const RemoteSessionOptions& options);
  static Result<StepRequest> RequestOf(const FeedList& feeds, const std::vector<Value>& fetches,
                                       const std::vector<Node*>& targets);
  Deadline DeadlineOf(const RunSettings& settings) const;
  Result<std::vector<Tensor>> RunStep(StepRequest request, const RunSettings& settings)
      LS_EXCLUDES(mu_);
  // Sends the graph if it has grown.
  Status Extend() LS_EXCLUDES(mu_);
  // Signs of life, until Close.
  void Keep() LS_EXCLUDES(mu_);

  const Graph& graph_;
  const std::shared_ptr<MasterInterface> master_;
  const RemoteSessionOptions options_;
  Mutex mu_;
  SessionHandle handle_ LS_GUARDED_BY(mu_);
  size_t nodes_sent_ LS_GUARDED_BY(mu_);
  bool closed_ LS_GUARDED_BY(mu_) = false;
  CondVar closing_;
  std::thread keeper_;  // only with a lease
};

}  // namespace lockstep::cluster
