#include "lockstep/cluster/internal/rpc_worker_stub.h"

#include <optional>

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/proto_io.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/internal/worker_methods.h"

namespace lockstep::cluster::internal {
namespace {

using std::chrono::milliseconds;

// Of calls whose answer nobody waits for.
constexpr milliseconds kCourtesy{10'000};

}  // namespace

Result<std::vector<pass::DeviceAttributes>> RpcWorkerStub::GetStatus(const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::string reply,
                      channel_->Call(worker_method::kGetStatus, "",
                                     {.deadline = deadline, .wait_for_ready = true}));
  LS_ASSIGN_OR_RETURN(const auto list, FromBytes<wire::DeviceList>(reply));
  return FromWire(list);
}

Status RpcWorkerStub::Call(std::string_view method, Result<std::string> body,
                           const Deadline& deadline) const {
  // How often it is looked whether the task is lost.
  constexpr milliseconds kLook{50};

  struct Answer {
    Mutex mu;
    CondVar came;
    std::optional<Status> status LS_GUARDED_BY(mu);
  };

  LS_TRY(body.status());
  const auto answer = std::make_shared<Answer>();
  const std::shared_ptr<RpcPending> pending =
      channel_->Start(method, std::move(body).value(), {.deadline = deadline},
                      [answer](const Result<std::string>& reply) {
                        const MutexLock lock(answer->mu);
                        answer->status = reply.status();
                        answer->came.NotifyAll();
                      });
  Status lost;
  {
    const MutexLock lock(answer->mu);
    while (!answer->status.has_value() && lost.ok()) {
      if (!answer->came.WaitUntil(answer->mu, Deadline::After(kLook))) {
        lost = lost_->Get(number_);
      }
    }
    if (answer->status.has_value()) {
      return *answer->status;
    }
  }
  pending->Cancel();
  return lost;
}

Status RpcWorkerStub::CreateSession(uint64_t session, const SessionPlace& place,
                                    const Deadline& deadline) {
  wire::WorkerSessionRequest request;
  request.set_session(session);
  request.set_container(place.container);
  request.set_isolate(place.isolate);
  return Call(worker_method::kCreateSession, ToBytes(request), deadline);
}

Status RpcWorkerStub::DeleteSession(uint64_t session, const Deadline& deadline) {
  wire::WorkerSessionRequest request;
  request.set_session(session);
  return Call(worker_method::kDeleteSession, ToBytes(request), deadline);
}

Status RpcWorkerStub::RegisterGraph(const WorkerGraph& graph, const Deadline& deadline) {
  wire::RegisterGraphRequest request;
  request.set_session(graph.session);
  request.set_scope(graph.scope);
  request.set_incarnation(graph.incarnation);
  request.set_num_feeds(graph.num_feeds);
  request.set_num_fetches(graph.num_fetches);
  for (const WorkerPart& part : graph.parts) {
    wire::GraphPart* added = request.add_parts();
    added->set_device(part.device);
    added->set_graph(part.graph);
    added->mutable_feeds()->Assign(part.feeds.begin(), part.feeds.end());
    added->mutable_fetches()->Assign(part.fetches.begin(), part.fetches.end());
  }
  return Call(worker_method::kRegisterGraph, ToBytes(request), deadline);
}

void RpcWorkerStub::DeregisterGraph(uint64_t scope) {
  wire::GraphRequest request;
  request.set_scope(scope);
  channel_->Start(worker_method::kDeregisterGraph, request.SerializeAsString(),
                  {.deadline = Deadline::After(kCourtesy)}, [](const Result<std::string>&) {});
}

Status RpcWorkerStub::Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) {
  wire::ConnectTasksRequest request;
  for (const TaskStart& task : tasks) {
    wire::Task* added = request.add_tasks();
    added->set_number(task.number);
    added->set_incarnation(task.incarnation);
  }
  request.set_wait_ms(WaitMs(deadline));
  return Call(worker_method::kConnectTasks, ToBytes(request), CallDeadline(deadline));
}

std::function<void()> RpcWorkerStub::RunGraph(const WorkerRun& run,
                                              const std::vector<Tensor>& feeds, RunDone done) {
  return runs_->Run(number_, run, feeds, std::move(done));
}

void RpcWorkerStub::CleanupGraph(uint64_t scope, uint64_t step, const Status& why) {
  wire::GraphRequest request;
  request.set_scope(scope);
  request.set_step(step);
  request.set_reason(EncodeStatus(why));
  channel_->Start(worker_method::kCleanupGraph, request.SerializeAsString(),
                  {.deadline = Deadline::After(kCourtesy)}, [](const Result<std::string>&) {});
}

Status RpcWorkerStub::CleanupAll(const std::vector<std::string>& containers,
                                 const Deadline& deadline) {
  wire::CleanupAllRequest request;
  for (const std::string& container : containers) {
    request.add_containers(container);
  }
  return Call(worker_method::kCleanupAll, ToBytes(request), deadline);
}

}  // namespace lockstep::cluster::internal
