#include "lockstep/cluster/server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/internal/channel_cache.h"
#include "lockstep/cluster/internal/coordinator_service.h"
#include "lockstep/cluster/internal/fixed_links.h"
#include "lockstep/cluster/internal/local_worker_stub.h"
#include "lockstep/cluster/internal/master_service.h"
#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/internal/rpc_worker_stub.h"
#include "lockstep/cluster/internal/task_threads.h"
#include "lockstep/cluster/internal/worker_service.h"
#include "lockstep/cluster/master/master.h"
#include "lockstep/cluster/security/credentials.h"
#include "lockstep/cluster/server/data_links.h"
#include "lockstep/op/catalog.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

// Calls that run when the server stops have this long to end by themselves.
constexpr milliseconds kDrain{2000};
// What was sent over data links has this long to get on its way.
constexpr milliseconds kFlush{1000};

Status GaveUp(const TaskId& task, const Status& why) {
  return Unavailable(fmt::format("{} gave up: {}", task.ToString(), why.ToString()));
}

}  // namespace

// What a started server consists of. Members are ended in the order of Shutdown.
struct Server::Running {
  std::unique_ptr<internal::CoordinatorService> service;  // null unless hosted here
  const std::shared_ptr<LostTasks> lost = std::make_shared<LostTasks>();
  std::shared_ptr<TaskLinks> links;
  std::shared_ptr<DataLinks> data_links;  // the same; null over a simulated network
  const std::shared_ptr<net::GrpcDoor> door = std::make_shared<net::GrpcDoor>();
  std::shared_ptr<Worker> worker;
  std::shared_ptr<internal::RunService> runs;
  std::shared_ptr<Master> master;
  std::unique_ptr<internal::TaskThreads> threads;
  std::unique_ptr<internal::RpcServer> rpc;
  std::shared_ptr<CoordinatorClient> client;

  ~Running() { Shutdown(Unavailable("the server has stopped")); }

  void Abort(const Status& why) const {
    if (master != nullptr) {
      master->Close(why);
    }
    if (worker != nullptr) {
      worker->AbortRuns(why);
    }
  }

  void Shutdown(const Status& why) {
    Abort(why);
    if (worker != nullptr) {
      worker->Stop(why);
    }
    if (data_links != nullptr) {
      data_links->Stop();
    }
    client.reset();
    if (service != nullptr) {
      service->Stop(why);
    }
    // Ends what waits for other tasks, and with it the calls that do.
    if (links != nullptr) {
      links->transport()->Close(Deadline::After(kFlush));
    }
    door->Close();
    if (rpc != nullptr) {
      rpc->Shutdown(Deadline::After(kDrain));
      rpc.reset();
    }
    if (runs != nullptr) {
      runs->Stop();
    }
    // After the calls have ended, and before what they use.
    threads.reset();
    service.reset();
  }
};

Result<std::unique_ptr<Server>> Server::Create(ServerDef def, ServerOptions options) {
  LS_TRY(CheckCredentials(options.security));
  LS_ASSIGN_OR_RETURN(const net::Address known, def.cluster().task_address(def.task()));
  LS_TRY(CheckCertifiedHost(options.security, known).With(def.task().ToString()));
  if (options.heartbeat < milliseconds(10)) {
    return InvalidArgument(
        fmt::format("a heartbeat of {} ms, at least 10", options.heartbeat.count()));
  }
  const std::optional<TaskId> chief = def.cluster().chief();
  const int coordinator = chief ? def.cluster().NumberOf(*chief).value_or(0) : 0;
  return std::make_unique<Server>(std::move(def), std::move(options), coordinator);
}

Server::Server(ServerDef def, ServerOptions options, int coordinator)
    : def_(std::move(def)),
      options_(std::move(options)),
      coordinator_(coordinator),
      port_(def_.address().port()) {}

Server::~Server() {
  (void)Stop(Deadline::After(milliseconds(0)));
}

Status Server::Start(const Deadline& deadline) {
  const MutexLock lifecycle(lifecycle_mu_);
  {
    const MutexLock lock(mu_);
    if (state_ == State::kStarted) {
      return FailedPrecondition("the server is started");
    }
    view_ = {};
    view_.members.resize(static_cast<size_t>(def_.cluster().size()));
    failure_ = OkStatus();
  }
  return StartLocked(deadline).With(def_.task().ToString());
}

Status Server::MakeLinks(Running& running, uint64_t incarnation) const {
  const bool simulated = def_.transport() == "sim";
  if (simulated != (options_.sim_transport != nullptr)) {
    return InvalidArgument(fmt::format("the transport is {}, and {} simulated one is given",
                                       def_.transport(), simulated ? "no" : "a"));
  }
  if (simulated) {
    running.links = std::make_shared<internal::FixedLinks>(options_.sim_transport);
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(running.data_links, DataLinks::Create({.def = def_,
                                                             .incarnation = incarnation,
                                                             .security = options_.security,
                                                             .heartbeat = options_.heartbeat,
                                                             .door = running.door,
                                                             .log = options_.log}));
  running.links = running.data_links;
  return OkStatus();
}

Status Server::MakeServices(Running& running, uint64_t incarnation) const {
  LS_TRY(MakeLinks(running, incarnation));
  const std::shared_ptr<net::Transport>& transport = running.links->transport();
  const auto channels = std::make_shared<internal::ChannelCache>(def_.cluster(), options_.security);
  LS_ASSIGN_OR_RETURN(running.worker,
                      Worker::Create({.cluster = def_.cluster(),
                                      .number = def_.number(),
                                      .devices = options_.devices,
                                      .threads_per_device = options_.threads_per_device},
                                     incarnation, transport));
  running.runs = std::make_shared<internal::RunService>(running.worker, running.links);
  const auto stubs = [channels, worker = running.worker, runs = running.runs,
                      clients = std::make_shared<internal::RunClient>(transport),
                      lost = running.lost,
                      self = def_.number()](int number) -> Result<std::shared_ptr<WorkerStub>> {
    if (number == self) {
      return std::shared_ptr<WorkerStub>(std::make_shared<internal::LocalWorkerStub>(worker, runs));
    }
    LS_ASSIGN_OR_RETURN(std::shared_ptr<internal::RpcChannel> channel, channels->Get(number));
    return std::shared_ptr<WorkerStub>(
        std::make_shared<internal::RpcWorkerStub>(std::move(channel), clients, lost, number));
  };
  running.master = std::make_shared<Master>(
      MasterOptions{
          .def = def_, .session_idle_timeout = options_.session_idle_timeout, .log = options_.log},
      op::Catalog(), stubs, transport->progress());
  running.threads = std::make_unique<internal::TaskThreads>();
  internal::RpcHandlers handlers;
  std::function<void(const std::string&)> on_stranger;
  internal::AddWorkerHandlers(handlers, running.worker, running.runs, *running.threads);
  internal::AddMasterHandlers(handlers, running.master, *running.threads);
  if (def_.number() == coordinator_) {
    const auto refused = [log = options_.log](const std::string& who) {
      if (log != nullptr) {
        log->Warning(who);
      }
    };
    LS_ASSIGN_OR_RETURN(running.service,
                        internal::CoordinatorService::Create(def_.cluster(), options_.heartbeat,
                                                             incarnation, refused));
    running.service->AddHandlers(handlers);
    on_stranger = [coordinator = running.service->shared()](const std::string& peer) {
      coordinator->NoteStranger(peer, Deadline::Clock::now());
    };
  }
  LS_ASSIGN_OR_RETURN(running.rpc, internal::RpcServer::Start({.address = def_.address(),
                                                               .security = options_.security,
                                                               .handlers = std::move(handlers),
                                                               .door = running.door,
                                                               .on_stranger = on_stranger}));
  // Behind a port mapping, others know this task by the address in the cluster.
  LS_ASSIGN_OR_RETURN(net::Address known, def_.cluster().task_address(def_.task()));
  running.door->Open((known.port() == 0 ? known.WithPort(running.rpc->port()) : known).ToString());
  return OkStatus();
}

Status Server::Connect(Running& running, uint64_t incarnation) {
  CoordinatorClient::Options client;
  client.cluster = def_.cluster();
  client.number = def_.number();
  client.coordinator = coordinator_;
  if (running.service != nullptr) {
    client.address = def_.address().WithPort(running.rpc->port());
  }
  client.incarnation = incarnation;
  client.security = options_.security;
  client.patience = options_.heartbeat * 2;
  client.on_view = [this](const MembershipView& view) { OnView(view); };
  client.on_failure = [this](const Status& why) { OnFailure(why); };
  LS_ASSIGN_OR_RETURN(running.client, CoordinatorClient::Create(std::move(client)));
  if (running.data_links != nullptr) {
    running.data_links->SetCoordinator(running.client);
  }
  return OkStatus();
}

Status Server::StartLocked(const Deadline& deadline) {
  auto running = std::make_shared<Running>();
  LS_ASSIGN_OR_RETURN(const uint64_t incarnation, RandomNonZero());
  LS_TRY(MakeServices(*running, incarnation));
  LS_TRY(Connect(*running, incarnation));
  {
    const MutexLock lock(mu_);
    port_ = running->rpc->port();
    incarnation_ = incarnation;
  }
  LS_TRY(running->client->Register(deadline));
  if (const Status status = running->client->WaitForTasks(def_.VisibleTasks(), deadline);
      !status.ok()) {
    // Who waits too is told why it waits in vain.
    running->Shutdown(GaveUp(def_.task(), status));
    return status;
  }
  if (options_.log != nullptr) {
    options_.log->Info(fmt::format("{} serves at {}, and every task is there",
                                   def_.task().ToString(),
                                   def_.address().WithPort(running->rpc->port()).ToString()));
  }
  Status failure;
  {
    const MutexLock lock(mu_);
    running_ = running;
    state_ = State::kStarted;
    failure = failure_;
  }
  if (!failure.ok()) {
    running->Abort(failure);
  }
  return OkStatus();
}

void Server::OnView(const MembershipView& view) {
  std::string lost;
  std::shared_ptr<Running> running;
  std::map<int, Status> lost_tasks;
  MembershipView before;
  {
    const MutexLock lock(mu_);
    running = running_;
    if (view.number <= view_.number && view_.number != 0) {
      return;
    }
    before = std::exchange(view_, view);
    Status failure;
    Status gave_up;
    for (const int number : def_.VisibleTasks()) {
      const Member& member = view.members[static_cast<size_t>(number)];
      if (member.state == MemberState::kLost) {
        lost_tasks[number] = member.reason;
        failure = failure.ok() ? member.reason : failure;
      }
      if (member.state == MemberState::kLeft && !member.reason.ok() && gave_up.ok()) {
        gave_up = GaveUp(def_.cluster().tasks()[static_cast<size_t>(number)].id, member.reason);
      }
    }
    // Who is lost is the cause, who gave up mostly a consequence.
    failure = failure.ok() ? gave_up : failure;
    if (!failure.ok() && failure_.ok()) {
      lost = failure.message();
    }
    failure_ = failure;
    changed_.NotifyAll();
  }
  if (running != nullptr) {
    running->lost->Set(lost_tasks);
    for (const auto& [number, why] : lost_tasks) {
      running->links->transport()->FailPeer(number, why);
    }
    if (!lost_tasks.empty()) {
      // Other masters may be among the lost: whatever waits for tensors of such a step ends.
      running->worker->AbortRuns(lost_tasks.begin()->second);
    }
    running->master->SetLost(std::move(lost_tasks));
  }
  if (!lost.empty() && options_.log != nullptr) {
    options_.log->Warning(lost);
  }
  LogChanges(before, view);
}

void Server::LogChanges(const MembershipView& before, const MembershipView& now) const {
  if (def_.number() != coordinator_ || options_.log == nullptr) {
    return;
  }
  for (size_t i = 0; i < now.members.size(); ++i) {
    const MemberState was = before.members[i].state;
    const Member& member = now.members[i];
    const std::string name = def_.cluster().tasks()[i].id.ToString();
    if (member.state == MemberState::kLeft && was != MemberState::kLeft && member.reason.ok()) {
      options_.log->Info(fmt::format("{} has left the job", name));
    } else if (member.present() && (was == MemberState::kLeft || was == MemberState::kLost)) {
      options_.log->Info(fmt::format("{} is back", name));
    }
  }
}

void Server::OnFailure(const Status& why) {
  std::shared_ptr<Running> running;
  {
    const MutexLock lock(mu_);
    failure_ = why;
    running = running_;
    changed_.NotifyAll();
  }
  if (running != nullptr) {
    running->Abort(why);
  }
  if (options_.log != nullptr) {
    options_.log->Warning(why.message());
  }
}

std::vector<int> Server::StillActive(const MembershipView& view) const {
  std::vector<int> active;
  for (size_t i = 0; i < view.members.size(); ++i) {
    if (view.members[i].state == MemberState::kActive) {
      active.push_back(static_cast<int>(i));
    }
  }
  return active;
}

Status Server::Join(const Deadline& deadline) {
  std::shared_ptr<Running> running;
  {
    const MutexLock lock(mu_);
    running = running_;
  }
  if (running == nullptr) {
    return FailedPrecondition("Join of a server that is not started");
  }
  LS_TRY(running->client->SetJoined(
      true, std::min(deadline, Deadline::After(running->client->heartbeat() * 2))));
  MembershipView view;
  {
    const MutexLock lock(mu_);
    for (;;) {
      if (running_ != running) {
        return Cancelled("the server was stopped");
      }
      LS_TRY(failure_);
      if (view_.job_over) {
        return OkStatus();
      }
      if (!changed_.WaitUntil(mu_, deadline)) {
        view = view_;
        break;
      }
    }
  }
  (void)running->client->SetJoined(false, Deadline::After(running->client->heartbeat()));
  return DeadlineExceeded(fmt::format("the job is not over: active are {}",
                                      ListTasks(def_.cluster(), StillActive(view))));
}

Status Server::LinkTasks(const Deadline& deadline) {
  std::shared_ptr<Running> running;
  std::vector<TaskStart> tasks;
  {
    const MutexLock lock(mu_);
    running = running_;
    while (running != nullptr && tasks.empty()) {
      LS_TRY(failure_);
      // Start has seen them all, which this view may not show yet.
      tasks = PresentTasks(view_);
      if (tasks.empty() && !changed_.WaitUntil(mu_, deadline)) {
        return DeadlineExceeded("the coordinator did not say which tasks there are");
      }
    }
  }
  if (running == nullptr) {
    return FailedPrecondition("LinkTasks of a server that is not started");
  }
  return running->links->Connect(tasks, deadline).With(def_.task().ToString());
}

std::vector<TaskStart> Server::PresentTasks(const MembershipView& view) const {
  std::vector<TaskStart> tasks;
  for (const int number : def_.VisibleTasks()) {
    const Member& member = view.members[static_cast<size_t>(number)];
    if (!member.present()) {
      return {};
    }
    tasks.push_back({number, member.incarnation});
  }
  return tasks;
}

Status Server::AwaitOthers(Running& running, const Deadline& deadline) const {
  struct Seen {
    Mutex mu;
    CondVar changed;
    bool answered = false;
  };

  Coordinator& coordinator = running.service->coordinator();
  for (;;) {
    const MembershipView view = coordinator.view();
    std::vector<int> present;
    for (int number = 0; number < def_.cluster().size(); ++number) {
      if (number != def_.number() && view.members[static_cast<size_t>(number)].present()) {
        present.push_back(number);
      }
    }
    if (present.empty()) {
      return OkStatus();
    }
    if (deadline.expired()) {
      return DeadlineExceeded(
          fmt::format("{} have not left the job", ListTasks(def_.cluster(), present)));
    }
    const auto seen = std::make_shared<Seen>();
    coordinator.Watch(view.number, deadline, [seen](const Result<MembershipView>&) {
      const MutexLock lock(seen->mu);
      seen->answered = true;
      seen->changed.NotifyAll();
    });
    const MutexLock lock(seen->mu);
    while (!seen->answered) {
      seen->changed.WaitUntil(seen->mu, Deadline::Infinite());
    }
  }
}

Status Server::Stop(const Deadline& deadline, const Status& outcome) {
  const MutexLock lifecycle(lifecycle_mu_);
  std::shared_ptr<Running> running;
  {
    const MutexLock lock(mu_);
    if (state_ != State::kStarted) {
      return OkStatus();
    }
    running = running_;
  }
  // With no time to say good-bye, the others find out by themselves.
  Status status;
  if (!deadline.expired() && running->client->failure().ok()) {
    status = running->client->Leave(outcome, deadline);
  }
  if (running->service != nullptr && !deadline.expired()) {
    const Status others = AwaitOthers(*running, deadline);
    status = status.ok() ? others : status;
  }
  {
    const MutexLock lock(mu_);
    running_ = nullptr;
    state_ = State::kStopped;
    changed_.NotifyAll();
  }
  running->Shutdown(outcome.ok()
                        ? Unavailable(fmt::format("{} has stopped", def_.task().ToString()))
                        : GaveUp(def_.task(), outcome));
  return status.With(def_.task().ToString());
}

Server::State Server::state() const {
  const MutexLock lock(mu_);
  return state_;
}

std::string Server::target() const {
  const MutexLock lock(mu_);
  return fmt::format("grpc://{}", def_.address().WithPort(port_).ToString());
}

uint64_t Server::incarnation() const {
  const MutexLock lock(mu_);
  return incarnation_;
}

CoordinatorClient* Server::coordinator() const {
  const MutexLock lock(mu_);
  return running_ == nullptr ? nullptr : running_->client.get();
}

std::shared_ptr<MasterInterface> Server::master() const {
  const MutexLock lock(mu_);
  return running_ == nullptr ? nullptr : running_->master;
}

std::shared_ptr<net::Transport> Server::transport() const {
  const MutexLock lock(mu_);
  return running_ == nullptr ? nullptr : running_->links->transport();
}

MembershipView Server::view() const {
  const MutexLock lock(mu_);
  return view_;
}

Status Server::failure() const {
  const MutexLock lock(mu_);
  return failure_;
}

}  // namespace lockstep::cluster
