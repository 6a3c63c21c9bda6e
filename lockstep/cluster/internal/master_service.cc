#include "lockstep/cluster/internal/master_service.h"

#include "lockstep/cluster/internal/add_handler.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/master_methods.h"
#include "lockstep/cluster/internal/signature_wire.h"
#include "lockstep/cluster/internal/tensor_codec.h"

namespace lockstep::cluster::internal {
namespace {

using Answer = Result<std::string>;

Answer Empty(const Status& status) {
  LS_TRY(status);
  return std::string();
}

Answer HandleReply(const Result<SessionHandle>& handle) {
  LS_TRY(handle.status());
  wire::SessionReply reply;
  reply.set_session(handle->session);
  reply.set_graph_version(handle->graph_version);
  return ToBytes(reply);
}

Answer CreateSession(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::CreateSessionRequest>(call.body));
  const SessionConfig config{
      .device_filters = {request.device_filters().begin(), request.device_filters().end()},
      .container = request.container(),
      .isolate = request.isolate(),
      .soft_placement = request.soft_placement(),
      .log_placement = request.log_placement(),
      .server_defaults = request.server_defaults(),
      .lease = std::chrono::milliseconds(request.lease_ms()),
      .seed = request.seed(),
  };
  return HandleReply(master.CreateSession(
      request.graph(), config, Deadline::After(std::chrono::milliseconds(request.wait_ms()))));
}

Answer ExtendSession(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::ExtendSessionRequest>(call.body));
  return HandleReply(master.ExtendSession({request.session(), request.graph_version()},
                                          request.graph(), call.deadline));
}

Answer RunStep(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(call.body));
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::RunStepRequest>(packed.message));
  StepRequest step{
      .session = request.session(),
      .callable = request.callable(),
      .partial_run = request.partial_run(),
      .signature = FromWire(request.signature()),
      .feeds = {},
      .request_id = request.request_id(),
      .deadline = Deadline::After(std::chrono::milliseconds(request.timeout_ms())),
      .trace_placement = request.trace_placement(),
  };
  LS_ASSIGN_OR_RETURN(step.feeds, UnpackTensors(request.feeds(), packed.elements));
  LS_ASSIGN_OR_RETURN(const StepReply reply, master.RunStep(step));
  wire::Tensors answer;
  for (const Tensor& tensor : reply.fetches) {
    *answer.add_tensors() = MetaOf(tensor);
  }
  answer.set_text(reply.placement);
  return PackTensors(answer, reply.fetches);
}

Answer PartialRunSetup(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::PartialRunRequest>(call.body));
  wire::PartialRunReply reply;
  LS_ASSIGN_OR_RETURN(
      const uint64_t run,
      master.PartialRunSetup(request.session(), FromWire(request.whole()),
                             Deadline::After(std::chrono::milliseconds(request.timeout_ms()))));
  reply.set_partial_run(run);
  return ToBytes(reply);
}

Answer MakeCallable(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::CallableRequest>(call.body));
  wire::CallableReply reply;
  LS_ASSIGN_OR_RETURN(
      const uint64_t callable,
      master.MakeCallable(request.session(), FromWire(request.signature()), call.deadline));
  reply.set_callable(callable);
  return ToBytes(reply);
}

Answer ReleaseCallable(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::CallableRequest>(call.body));
  return Empty(master.ReleaseCallable(request.session(), request.callable(), call.deadline));
}

Answer CloseSession(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::SessionRequest>(call.body));
  return Empty(master.CloseSession(request.session(), call.deadline));
}

Answer KeepSession(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::SessionRequest>(call.body));
  return Empty(master.KeepSession(request.session(), call.deadline));
}

Answer ListDevices(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::SessionRequest>(call.body));
  LS_ASSIGN_OR_RETURN(const auto devices, master.ListDevices(request.session(), call.deadline));
  return ToBytes(ToWire(devices));
}

Answer Reset(MasterInterface& master, const RpcRequest& call) {
  LS_ASSIGN_OR_RETURN(const auto request, FromBytes<wire::ResetRequest>(call.body));
  return Empty(
      master.Reset({request.containers().begin(), request.containers().end()}, call.deadline));
}

}  // namespace

void AddMasterHandlers(RpcHandlers& handlers, const std::shared_ptr<MasterInterface>& master,
                       TaskThreads& threads) {
  namespace method = master_method;
  using Handle = Answer (*)(MasterInterface&, const RpcRequest&);
  const std::pair<std::string_view, Handle> table[] = {
      {method::kCreateSession, CreateSession},
      {method::kExtendSession, ExtendSession},
      {method::kRunStep, RunStep},
      {method::kPartialRunSetup, PartialRunSetup},
      {method::kMakeCallable, MakeCallable},
      {method::kReleaseCallable, ReleaseCallable},
      {method::kCloseSession, CloseSession},
      {method::kKeepSession, KeepSession},
      {method::kListDevices, ListDevices},
      {method::kReset, Reset},
  };
  for (const auto& [name, handle] : table) {
    handlers.emplace(name, [master, &threads, handle = handle](
                               RpcRequest request, const std::shared_ptr<RpcReply>& reply) {
      const auto call = std::make_shared<RpcRequest>(std::move(request));
      const Status status =
          threads.Start([master, handle, call, reply] { reply->Finish(handle(*master, *call)); });
      if (!status.ok()) {
        reply->Finish(status);
      }
    });
  }
}

}  // namespace lockstep::cluster::internal
