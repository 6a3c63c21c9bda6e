#include "lockstep/cluster/client/remote_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/hmac.h"
#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/node_names.h"
#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/rpc_master.h"
#include "lockstep/cluster/security/credentials.h"
#include "lockstep/graph/serialize.h"

namespace lockstep::cluster {
namespace {

using internal::NamesOf;
using std::chrono::milliseconds;

constexpr milliseconds kCloseSessionTimeout{10'000};

Result<std::shared_ptr<MasterInterface>> Connect(const std::string& target,
                                                 const SecurityOptions& security) {
  constexpr std::string_view kScheme = "grpc://";
  if (target.rfind(kScheme, 0) != 0) {
    return InvalidArgument(
        fmt::format("a session's target is grpc://host:port, found {}", Quoted(target)));
  }
  LS_ASSIGN_OR_RETURN(const net::Address address,
                      net::Address::Parse(target.substr(kScheme.size())));
  LS_TRY(CheckCredentials(security));
  LS_ASSIGN_OR_RETURN(
      std::shared_ptr<internal::RpcChannel> channel,
      internal::RpcChannel::Create({.address = address, .peer = {}, .security = security}));
  return std::shared_ptr<MasterInterface>(
      std::make_shared<internal::RpcMaster>(std::move(channel)));
}

Status CheckValid(const std::vector<Value>& values, std::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].valid()) {
      return InvalidArgument(fmt::format("{} {} is not a value of a graph", what, i));
    }
  }
  return OkStatus();
}

Status CheckTargets(const std::vector<Node*>& targets) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == nullptr) {
      return InvalidArgument(fmt::format("target {} is not a node of a graph", i));
    }
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<RemoteSession>> RemoteSession::Create(const Graph& graph,
                                                             const std::string& target,
                                                             const RemoteSessionOptions& options) {
  LS_ASSIGN_OR_RETURN(std::shared_ptr<MasterInterface> master, Connect(target, options.security));
  RemoteSessionOptions leased = options;
  leased.config.lease = options.lease;
  return Open(graph, std::move(master), leased);
}

Result<std::unique_ptr<RemoteSession>> RemoteSession::Create(const Graph& graph,
                                                             const Server& server,
                                                             const RemoteSessionOptions& options) {
  std::shared_ptr<MasterInterface> master = server.master();
  if (master == nullptr) {
    return FailedPrecondition("a session of a server that is not started");
  }
  return Open(graph, std::move(master), options);
}

Result<std::unique_ptr<RemoteSession>> RemoteSession::Open(const Graph& graph,
                                                           std::shared_ptr<MasterInterface> master,
                                                           const RemoteSessionOptions& options) {
  LS_ASSIGN_OR_RETURN(const std::string bytes, SerializeGraph(graph));
  LS_ASSIGN_OR_RETURN(
      const SessionHandle handle,
      master->CreateSession(bytes, options.config, Deadline::After(options.connect_timeout)));
  return std::make_unique<RemoteSession>(graph, std::move(master), options, handle);
}

RemoteSession::RemoteSession(const Graph& graph, std::shared_ptr<MasterInterface> master,
                             RemoteSessionOptions options, SessionHandle handle)
    : graph_(graph),
      master_(std::move(master)),
      options_(std::move(options)),
      handle_(handle),
      nodes_sent_(graph.nodes().size()) {
  if (options_.config.lease.count() > 0) {
    keeper_ = std::thread([this] { Keep(); });
  }
}

RemoteSession::~RemoteSession() {
  (void)Close();
  if (keeper_.joinable()) {
    keeper_.join();
  }
}

void RemoteSession::Keep() {
  const milliseconds period = std::max(options_.config.lease / 4, milliseconds(1));
  for (;;) {
    uint64_t session = 0;
    {
      const MutexLock lock(mu_);
      const Deadline next = Deadline::After(period);
      while (!closed_ && closing_.WaitUntil(mu_, next)) {
      }
      if (closed_) {
        return;
      }
      session = handle_.session;
    }
    // One that fails may be followed by one that does not; steps say what is wrong.
    (void)master_->KeepSession(session, Deadline::After(period));
  }
}

Status RemoteSession::Close() {
  uint64_t session = 0;
  {
    const MutexLock lock(mu_);
    if (closed_) {
      return OkStatus();
    }
    closed_ = true;
    closing_.NotifyAll();
    session = handle_.session;
  }
  return master_->CloseSession(session, Deadline::After(kCloseSessionTimeout));
}

Status RemoteSession::Extend() {
  const MutexLock lock(mu_);
  if (closed_) {
    return FailedPrecondition("the session is closed");
  }
  if (graph_.nodes().size() == nodes_sent_) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const std::string bytes, SerializeGraph(graph_));
  LS_ASSIGN_OR_RETURN(
      handle_, master_->ExtendSession(handle_, bytes, Deadline::After(options_.connect_timeout)));
  nodes_sent_ = graph_.nodes().size();
  return OkStatus();
}

Deadline RemoteSession::DeadlineOf(const RunSettings& settings) const {
  return Deadline::After(settings.timeout.count() > 0 ? settings.timeout : options_.step_timeout);
}

Result<std::vector<Tensor>> RemoteSession::RunStep(StepRequest request,
                                                   const RunSettings& settings) {
  LS_TRY(Extend());
  {
    const MutexLock lock(mu_);
    request.session = handle_.session;
  }
  LS_ASSIGN_OR_RETURN(request.request_id, RandomNonZero());
  request.deadline = DeadlineOf(settings);
  request.trace_placement = settings.placement != nullptr;
  LS_ASSIGN_OR_RETURN(StepReply reply, master_->RunStep(request));
  if (settings.placement != nullptr) {
    *settings.placement = std::move(reply.placement);
  }
  return std::move(reply.fetches);
}

Status RemoteSession::Initialize() {
  std::vector<Node*> targets;
  for (const Value& value : graph_.Collection(collection::kInitializers)) {
    targets.push_back(value.node);
  }
  return Run({}, {}, targets).status();
}

Result<StepRequest> RemoteSession::RequestOf(const FeedList& feeds,
                                             const std::vector<Value>& fetches,
                                             const std::vector<Node*>& targets) {
  StepRequest request{.signature = {}, .feeds = {}, .deadline = Deadline::Infinite()};
  std::vector<Value> values;
  for (const auto& [value, tensor] : feeds) {
    values.push_back(value);
    request.feeds.push_back(tensor);
  }
  LS_TRY(CheckValid(values, "feed"));
  LS_TRY(CheckValid(fetches, "fetch"));
  LS_TRY(CheckTargets(targets));
  request.signature = {NamesOf(values), NamesOf(fetches), NamesOf(targets)};
  return request;
}

Result<std::vector<Tensor>> RemoteSession::Run(const FeedList& feeds,
                                               const std::vector<Value>& fetches,
                                               const std::vector<Node*>& targets,
                                               const RunSettings& settings) {
  LS_ASSIGN_OR_RETURN(StepRequest request, RequestOf(feeds, fetches, targets));
  return RunStep(std::move(request), settings);
}

Result<uint64_t> RemoteSession::PartialRunSetup(const std::vector<Value>& feeds,
                                                const std::vector<Value>& fetches,
                                                const std::vector<Node*>& targets,
                                                const RunSettings& settings) {
  LS_TRY(CheckValid(feeds, "feed"));
  LS_TRY(CheckValid(fetches, "fetch"));
  LS_TRY(CheckTargets(targets));
  LS_TRY(Extend());
  uint64_t session = 0;
  {
    const MutexLock lock(mu_);
    session = handle_.session;
  }
  return master_->PartialRunSetup(session, {NamesOf(feeds), NamesOf(fetches), NamesOf(targets)},
                                  DeadlineOf(settings));
}

Result<std::vector<Tensor>> RemoteSession::PartialRun(uint64_t run, const FeedList& feeds,
                                                      const std::vector<Value>& fetches,
                                                      const std::vector<Node*>& targets,
                                                      const RunSettings& settings) {
  LS_ASSIGN_OR_RETURN(StepRequest request, RequestOf(feeds, fetches, targets));
  request.partial_run = run;
  return RunStep(std::move(request), settings);
}

Result<std::vector<Tensor>> RemoteSession::RunByName(
    const std::vector<std::pair<std::string, Tensor>>& feeds,
    const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
    const RunSettings& settings) {
  StepRequest request{
      .signature = {{}, fetches, targets}, .feeds = {}, .deadline = Deadline::Infinite()};
  for (const auto& [name, tensor] : feeds) {
    request.signature.feeds.push_back(name);
    request.feeds.push_back(tensor);
  }
  return RunStep(std::move(request), settings);
}

Result<RemoteSession::Callable> RemoteSession::MakeCallable(const std::vector<Value>& feeds,
                                                            const std::vector<Value>& fetches,
                                                            const std::vector<Node*>& targets) {
  LS_TRY(CheckValid(feeds, "feed"));
  LS_TRY(CheckValid(fetches, "fetch"));
  LS_TRY(CheckTargets(targets));
  LS_TRY(Extend());
  uint64_t session = 0;
  {
    const MutexLock lock(mu_);
    session = handle_.session;
  }
  LS_ASSIGN_OR_RETURN(
      const uint64_t id,
      master_->MakeCallable(session, {NamesOf(feeds), NamesOf(fetches), NamesOf(targets)},
                            Deadline::After(options_.connect_timeout)));
  return Callable(*this, id);
}

Status RemoteSession::ReleaseCallable(const Callable& callable) {
  uint64_t session = 0;
  {
    const MutexLock lock(mu_);
    session = handle_.session;
  }
  return master_->ReleaseCallable(session, callable.id_, Deadline::After(options_.connect_timeout));
}

Result<std::vector<Tensor>> RemoteSession::Callable::Run(std::vector<Tensor> feeds,
                                                         const RunSettings& settings) {
  return session_->RunStep({.callable = id_,
                            .signature = {},
                            .feeds = std::move(feeds),
                            .deadline = Deadline::Infinite()},
                           settings);
}

Result<std::vector<pass::DeviceAttributes>> RemoteSession::ListDevices() {
  uint64_t session = 0;
  {
    const MutexLock lock(mu_);
    session = handle_.session;
  }
  return master_->ListDevices(session, Deadline::After(options_.connect_timeout));
}

Status RemoteSession::Reset(const std::string& target, const std::vector<std::string>& containers,
                            const SecurityOptions& security, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterInterface> master, Connect(target, security));
  return master->Reset(containers, deadline);
}

Status RemoteSession::Reset(const Server& server, const std::vector<std::string>& containers,
                            const Deadline& deadline) {
  const std::shared_ptr<MasterInterface> master = server.master();
  return master == nullptr ? FailedPrecondition("the server is not started")
                           : master->Reset(containers, deadline);
}

}  // namespace lockstep::cluster
