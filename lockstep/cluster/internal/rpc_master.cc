#include "lockstep/cluster/internal/rpc_master.h"

#include <algorithm>

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/device_wire.h"
#include "lockstep/cluster/internal/master_methods.h"
#include "lockstep/cluster/internal/proto_io.h"
#include "lockstep/cluster/internal/signature_wire.h"
#include "lockstep/cluster/internal/tensor_codec.h"

namespace lockstep::cluster::internal {
namespace {

Result<SessionHandle> ReadHandle(const Result<std::string>& reply) {
  LS_TRY(reply.status());
  LS_ASSIGN_OR_RETURN(const auto handle, FromBytes<wire::SessionReply>(*reply));
  return SessionHandle{handle.session(), handle.graph_version()};
}

}  // namespace

Result<SessionHandle> RpcMaster::CreateSession(const std::string& graph,
                                               const SessionConfig& config,
                                               const Deadline& deadline) {
  wire::CreateSessionRequest request;
  request.set_graph(graph);
  request.mutable_device_filters()->Assign(config.device_filters.begin(),
                                           config.device_filters.end());
  request.set_container(config.container);
  request.set_isolate(config.isolate);
  request.set_soft_placement(config.soft_placement);
  request.set_server_defaults(config.server_defaults);
  request.set_seed(config.seed);
  request.set_lease_ms(static_cast<uint32_t>(
      std::clamp(config.lease, std::chrono::milliseconds(0), kLongestWait).count()));
  request.set_log_placement(config.log_placement);
  request.set_wait_ms(WaitMs(deadline));
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return ReadHandle(channel_->Call(master_method::kCreateSession, std::move(body),
                                   {.deadline = CallDeadline(deadline), .wait_for_ready = true}));
}

Result<SessionHandle> RpcMaster::ExtendSession(const SessionHandle& handle,
                                               const std::string& graph, const Deadline& deadline) {
  wire::ExtendSessionRequest request;
  request.set_session(handle.session);
  request.set_graph_version(handle.graph_version);
  request.set_graph(graph);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return ReadHandle(
      channel_->Call(master_method::kExtendSession, std::move(body), {.deadline = deadline}));
}

Result<StepReply> RpcMaster::RunStep(const StepRequest& step) {
  wire::RunStepRequest request;
  request.set_session(step.session);
  request.set_callable(step.callable);
  if (step.callable == 0) {
    ToWire(step.signature, *request.mutable_signature());
  }
  request.set_partial_run(step.partial_run);
  request.set_request_id(step.request_id);
  request.set_timeout_ms(WaitMs(step.deadline));
  request.set_trace_placement(step.trace_placement);
  for (const Tensor& feed : step.feeds) {
    *request.add_feeds() = MetaOf(feed);
  }
  LS_ASSIGN_OR_RETURN(std::string body, PackTensors(request, step.feeds));
  LS_ASSIGN_OR_RETURN(const std::string reply,
                      channel_->Call(master_method::kRunStep, std::move(body),
                                     {.deadline = CallDeadline(step.deadline)}));
  LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(reply));
  LS_ASSIGN_OR_RETURN(const auto answer, FromBytes<wire::Tensors>(packed.message));
  StepReply result;
  LS_ASSIGN_OR_RETURN(result.fetches, UnpackTensors(answer.tensors(), packed.elements));
  result.placement = answer.text();
  return result;
}

Result<uint64_t> RpcMaster::PartialRunSetup(uint64_t session, const SignatureNames& whole,
                                            const Deadline& deadline) {
  wire::PartialRunRequest request;
  request.set_session(session);
  ToWire(whole, *request.mutable_whole());
  request.set_timeout_ms(WaitMs(deadline));
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  LS_ASSIGN_OR_RETURN(const std::string reply,
                      channel_->Call(master_method::kPartialRunSetup, std::move(body),
                                     {.deadline = CallDeadline(deadline)}));
  LS_ASSIGN_OR_RETURN(const auto answer, FromBytes<wire::PartialRunReply>(reply));
  return answer.partial_run();
}

Result<uint64_t> RpcMaster::MakeCallable(uint64_t session, const SignatureNames& signature,
                                         const Deadline& deadline) {
  wire::CallableRequest request;
  request.set_session(session);
  ToWire(signature, *request.mutable_signature());
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  LS_ASSIGN_OR_RETURN(
      const std::string reply,
      channel_->Call(master_method::kMakeCallable, std::move(body), {.deadline = deadline}));
  LS_ASSIGN_OR_RETURN(const auto answer, FromBytes<wire::CallableReply>(reply));
  return answer.callable();
}

Status RpcMaster::ReleaseCallable(uint64_t session, uint64_t callable, const Deadline& deadline) {
  wire::CallableRequest request;
  request.set_session(session);
  request.set_callable(callable);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(master_method::kReleaseCallable, std::move(body), {.deadline = deadline})
      .status();
}

Status RpcMaster::CloseSession(uint64_t session, const Deadline& deadline) {
  wire::SessionRequest request;
  request.set_session(session);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(master_method::kCloseSession, std::move(body), {.deadline = deadline})
      .status();
}

Status RpcMaster::KeepSession(uint64_t session, const Deadline& deadline) {
  wire::SessionRequest request;
  request.set_session(session);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(master_method::kKeepSession, std::move(body), {.deadline = deadline})
      .status();
}

Result<std::vector<pass::DeviceAttributes>> RpcMaster::ListDevices(uint64_t session,
                                                                   const Deadline& deadline) {
  wire::SessionRequest request;
  request.set_session(session);
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  LS_ASSIGN_OR_RETURN(
      const std::string reply,
      channel_->Call(master_method::kListDevices, std::move(body), {.deadline = deadline}));
  LS_ASSIGN_OR_RETURN(const auto list, FromBytes<wire::DeviceList>(reply));
  return FromWire(list);
}

Status RpcMaster::Reset(const std::vector<std::string>& containers, const Deadline& deadline) {
  wire::ResetRequest request;
  request.mutable_containers()->Assign(containers.begin(), containers.end());
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  return channel_->Call(master_method::kReset, std::move(body), {.deadline = deadline}).status();
}

}  // namespace lockstep::cluster::internal
