#include "lockstep/cluster/internal/rpc_worker_stub.h"

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/proto_io.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/internal/tensor_codec.h"
#include "lockstep/cluster/internal/worker_methods.h"

namespace lockstep::cluster::internal {
namespace {

namespace method = worker_method;
using std::chrono::milliseconds;

// Of calls whose answer nobody waits for.
constexpr milliseconds kCourtesy{10'000};

Result<std::vector<Tensor>> ReadTensors(const Result<std::string>& reply) {
  LS_TRY(reply.status());
  LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(*reply));
  LS_ASSIGN_OR_RETURN(const auto answer, FromBytes<wire::Tensors>(packed.message));
  return UnpackTensors(answer.tensors(), packed.elements);
}

}  // namespace

Result<std::vector<pass::DeviceAttributes>> RpcWorkerStub::GetStatus(const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(
      const std::string reply,
      channel_->Call(method::kGetStatus, "", {.deadline = deadline, .wait_for_ready = true}));
  LS_ASSIGN_OR_RETURN(const auto list, FromBytes<wire::DeviceList>(reply));
  return FromWire(list);
}

Status RpcWorkerStub::CreateSession(uint64_t session, const SessionPlace& place,
                                    const Deadline& deadline) {
  wire::WorkerSessionRequest request;
  request.set_session(session);
  request.set_container(place.container);
  request.set_isolate(place.isolate);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(method::kCreateSession, std::move(body), {.deadline = deadline}).status();
}

Status RpcWorkerStub::DeleteSession(uint64_t session, const Deadline& deadline) {
  wire::WorkerSessionRequest request;
  request.set_session(session);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(method::kDeleteSession, std::move(body), {.deadline = deadline}).status();
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
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(method::kRegisterGraph, std::move(body), {.deadline = deadline}).status();
}

void RpcWorkerStub::DeregisterGraph(uint64_t scope) {
  wire::GraphRequest request;
  request.set_scope(scope);
  channel_->Start(method::kDeregisterGraph, request.SerializeAsString(),
                  {.deadline = Deadline::After(kCourtesy)}, [](const Result<std::string>&) {});
}

std::function<void()> RpcWorkerStub::RunGraph(const WorkerRun& run,
                                              const std::vector<Tensor>& feeds, RunDone done) {
  wire::RunGraphRequest request;
  request.set_session(run.session);
  request.set_scope(run.scope);
  request.set_step(run.step);
  request.set_request_id(run.request_id);
  request.set_seed(run.info.seed);
  request.set_step_number(run.info.step);
  request.set_timeout_ms(WaitMs(run.deadline));
  for (const Tensor& feed : feeds) {
    *request.add_feeds() = MetaOf(feed);
  }
  Result<std::string> body = PackTensors(request, feeds);
  if (!body.ok()) {
    done(body.status());
    return nullptr;
  }
  const Deadline deadline = CallDeadline(run.deadline, CallLevel::kInner);
  std::shared_ptr<RpcPending> pending = channel_->Start(
      method::kRunGraph, std::move(body).value(), {.deadline = deadline},
      [done = std::move(done)](const Result<std::string>& reply) { done(ReadTensors(reply)); });
  return [pending] { pending->Cancel(); };
}

void RpcWorkerStub::CleanupGraph(uint64_t scope, uint64_t step, const Status& why) {
  wire::GraphRequest request;
  request.set_scope(scope);
  request.set_step(step);
  request.set_reason(EncodeStatus(why));
  channel_->Start(method::kCleanupGraph, request.SerializeAsString(),
                  {.deadline = Deadline::After(kCourtesy)}, [](const Result<std::string>&) {});
}

Status RpcWorkerStub::CleanupAll(const std::vector<std::string>& containers,
                                 const Deadline& deadline) {
  wire::CleanupAllRequest request;
  for (const std::string& container : containers) {
    request.add_containers(container);
  }
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(method::kCleanupAll, std::move(body), {.deadline = deadline}).status();
}

}  // namespace lockstep::cluster::internal
