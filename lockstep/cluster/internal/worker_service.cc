#include "lockstep/cluster/internal/worker_service.h"

#include "lockstep/cluster/internal/add_handler.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/internal/worker_methods.h"

namespace lockstep::cluster::internal {
namespace {

using Reply = std::shared_ptr<RpcReply>;
using WorkerPtr = std::shared_ptr<Worker>;

WorkerGraph FromWire(const wire::RegisterGraphRequest& request) {
  WorkerGraph graph{.session = request.session(),
                    .scope = request.scope(),
                    .incarnation = request.incarnation(),
                    .num_feeds = request.num_feeds(),
                    .num_fetches = request.num_fetches(),
                    .parts = {}};
  for (const wire::GraphPart& part : request.parts()) {
    graph.parts.push_back({.device = part.device(),
                           .graph = part.graph(),
                           .feeds = {part.feeds().begin(), part.feeds().end()},
                           .fetches = {part.fetches().begin(), part.fetches().end()}});
  }
  return graph;
}

// What takes time goes to a thread.
void StartOn(TaskThreads& threads, const Reply& reply, std::function<void()> work) {
  const Status status = threads.Start(std::move(work));
  if (!status.ok()) {
    reply->Finish(status);
  }
}

}  // namespace

void AddWorkerHandlers(RpcHandlers& handlers, const WorkerPtr& worker,
                       const std::shared_ptr<RunService>& runs, TaskThreads& threads) {
  namespace method = worker_method;
  handlers.emplace(method::kGetStatus, [worker](const RpcRequest&, const Reply& reply) {
    reply->Finish(ToBytes(ToWire(worker->Devices())));
  });
  AddHandler<wire::WorkerSessionRequest>(
      handlers, method::kCreateSession, worker,
      [](Worker& w, const wire::WorkerSessionRequest& request, const Reply& reply) {
        FinishEmpty(reply,
                    w.CreateSession(request.session(), {request.container(), request.isolate()}));
      });
  AddHandler<wire::WorkerSessionRequest>(
      handlers, method::kDeleteSession, worker,
      [](Worker& w, const wire::WorkerSessionRequest& request, const Reply& reply) {
        w.DeleteSession(request.session());
        reply->Finish(std::string());
      });
  AddHandler<wire::RegisterGraphRequest>(
      handlers, method::kRegisterGraph, worker,
      [worker, &threads](Worker&, const wire::RegisterGraphRequest& request, const Reply& reply) {
        const auto graph = std::make_shared<WorkerGraph>(FromWire(request));
        StartOn(threads, reply,
                [worker, graph, reply] { FinishEmpty(reply, worker->RegisterGraph(*graph)); });
      });
  AddHandler<wire::GraphRequest>(
      handlers, method::kDeregisterGraph, worker,
      [](Worker& w, const wire::GraphRequest& request, const Reply& reply) {
        w.DeregisterGraph(request.scope());
        reply->Finish(std::string());
      });
  AddHandler<wire::GraphRequest>(
      handlers, method::kCleanupGraph, worker,
      [](Worker& w, const wire::GraphRequest& request, const Reply& reply) {
        const Status why = DecodeStatus(request.reason());
        w.CleanupGraph(request.scope(), request.step(),
                       why.ok() ? Cancelled("the step is over") : why);
        reply->Finish(std::string());
      });
  AddHandler<wire::CleanupAllRequest>(
      handlers, method::kCleanupAll, worker,
      [](Worker& w, const wire::CleanupAllRequest& request, const Reply& reply) {
        w.CleanupAll({request.containers().begin(), request.containers().end()});
        reply->Finish(std::string());
      });
  AddHandler<wire::ConnectTasksRequest>(
      handlers, method::kConnectTasks, runs,
      [runs, &threads](RunService&, const wire::ConnectTasksRequest& request, const Reply& reply) {
        std::vector<TaskStart> tasks;
        for (const wire::Task& task : request.tasks()) {
          tasks.push_back({task.number(), task.incarnation()});
        }
        const Deadline deadline = Deadline::After(std::chrono::milliseconds(request.wait_ms()));
        StartOn(threads, reply, [runs, tasks, deadline, reply] {
          FinishEmpty(reply, runs->Connect(tasks, deadline));
        });
      });
}

}  // namespace lockstep::cluster::internal
