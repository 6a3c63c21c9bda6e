#include "lockstep/cluster/internal/worker_service.h"

#include "lockstep/cluster/internal/add_handler.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/internal/tensor_codec.h"
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

Result<std::string> RunGraph(Worker& worker, const RpcRequest& call,
                             exec::Cancellation& cancellation) {
  LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(call.body));
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::RunGraphRequest>(packed.message));
  LS_ASSIGN_OR_RETURN(const std::vector<Tensor> feeds,
                      UnpackTensors(request.feeds(), packed.elements));
  const WorkerRun run{
      .session = request.session(),
      .scope = request.scope(),
      .step = request.step(),
      .request_id = request.request_id(),
      .info = {request.seed(), request.step_number(), 0},
      .deadline = Deadline::After(std::chrono::milliseconds(request.timeout_ms())),
  };
  LS_ASSIGN_OR_RETURN(const std::vector<Tensor> fetches, worker.RunGraph(run, feeds, cancellation));
  wire::Tensors answer;
  for (const Tensor& tensor : fetches) {
    *answer.add_tensors() = MetaOf(tensor);
  }
  return PackTensors(answer, fetches);
}

// What takes time goes to a thread.
void StartOn(TaskThreads& threads, const Reply& reply, std::function<void()> work) {
  const Status status = threads.Start(std::move(work));
  if (!status.ok()) {
    reply->Finish(status);
  }
}

void AddRuns(RpcHandlers& handlers, const WorkerPtr& worker, TaskThreads& threads) {
  namespace method = worker_method;
  handlers.emplace(method::kRunGraph, [worker, &threads](RpcRequest request, const Reply& reply) {
    const auto cancellation = std::make_shared<exec::Cancellation>();
    reply->OnCancel([cancellation] {
      cancellation->Cancel(Cancelled("the master gave up the step, or has gone"));
    });
    const auto call = std::make_shared<RpcRequest>(std::move(request));
    StartOn(threads, reply, [worker, call, cancellation, reply] {
      reply->Finish(RunGraph(*worker, *call, *cancellation));
    });
  });
  handlers.emplace(method::kPutTensor, [worker](const RpcRequest& request, const Reply& reply) {
    const auto put = [&]() -> Status {
      LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(request.body));
      LS_ASSIGN_OR_RETURN(const auto message, FromBytes<wire::PutTensorRequest>(packed.message));
      MetaList metas;
      *metas.Add() = message.tensor();
      LS_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, UnpackTensors(metas, packed.elements));
      return worker->PutTensor({message.scope(), message.step(), message.item()}, tensors[0]);
    };
    FinishEmpty(reply, put());
  });
}

}  // namespace

void AddWorkerHandlers(RpcHandlers& handlers, const WorkerPtr& worker, TaskThreads& threads) {
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
  AddRuns(handlers, worker, threads);
}

}  // namespace lockstep::cluster::internal
