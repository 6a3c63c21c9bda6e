#include "lockstep/cluster/internal/coordinator_service.h"

#include <algorithm>

#include "lockstep/cluster/internal/add_handler.h"
#include "lockstep/cluster/internal/coordinator_methods.h"
#include "lockstep/cluster/internal/coordinator_wire.h"
#include "lockstep/cluster/internal/rpc_sessions.h"
#include "lockstep/cluster/internal/rpc_status.h"

namespace lockstep::cluster::internal {
namespace {

using Reply = std::shared_ptr<RpcReply>;
using CoordinatorPtr = std::shared_ptr<Coordinator>;

TaskStart StartOf(const wire::Task& task) {
  return {task.number(), task.incarnation()};
}

Coordinator::Time Now() {
  return Deadline::Clock::now();
}

// What a caller says in milliseconds; the deadline of its call is a little later, so that it hears
// who is missing instead of running out of time itself.
Deadline WaitOf(uint32_t wait_ms) {
  return Deadline::After(std::chrono::milliseconds(wait_ms));
}

Status RegisterTask(Coordinator& coordinator, const wire::RegisterTaskRequest& request) {
  if (request.protocol_version() != kProtocolVersion) {
    return FailedPrecondition(
        fmt::format("{} speaks version {} of the protocol, the coordinator {}", request.name(),
                    request.protocol_version(), kProtocolVersion));
  }
  return coordinator.Register({.task = StartOf(request.task()),
                               .name = request.name(),
                               .fingerprint = request.fingerprint(),
                               .cluster = request.cluster()},
                              Now());
}

void AddMembership(RpcHandlers& handlers, const CoordinatorPtr& coordinator, uint64_t incarnation) {
  namespace method = coordinator_method;
  AddHandler<wire::RegisterTaskRequest>(
      handlers, method::kRegister, coordinator,
      [incarnation](Coordinator& c, const wire::RegisterTaskRequest& request, const Reply& reply) {
        const Status status = RegisterTask(c, request);
        if (!status.ok()) {
          reply->Finish(status);
          return;
        }
        wire::RegisterTaskReply answer;
        answer.set_coordinator_incarnation(incarnation);
        answer.set_heartbeat_ms(static_cast<uint32_t>(c.heartbeat().count()));
        answer.set_view(c.view().number);
        reply->Finish(ToBytes(answer));
      });
  AddHandler<wire::HeartbeatRequest>(
      handlers, method::kHeartbeat, coordinator,
      [](Coordinator& c, const wire::HeartbeatRequest& request, const Reply& reply) {
        FinishEmpty(reply, c.Heartbeat(StartOf(request.task()), Now()));
      });
  AddHandler<wire::WatchRequest>(
      handlers, method::kWatch, coordinator,
      [](Coordinator& c, const wire::WatchRequest& request, const Reply& reply) {
        c.Watch(request.after(), WaitOf(request.wait_ms()),
                [reply](const Result<MembershipView>& view) {
                  reply->Finish(view.ok() ? ToBytes(ToWire(*view)) : view.status());
                });
      });
  AddHandler<wire::WaitForTasksRequest>(
      handlers, method::kWaitForTasks, coordinator,
      [](Coordinator& c, const wire::WaitForTasksRequest& request, const Reply& reply) {
        c.WaitForTasks(StartOf(request.task()),
                       {request.numbers().begin(), request.numbers().end()},
                       WaitOf(request.wait_ms()),
                       [reply](const Status& status) { FinishEmpty(reply, status); });
      });
  AddHandler<wire::ActivityRequest>(
      handlers, method::kSetActivity, coordinator,
      [](Coordinator& c, const wire::ActivityRequest& request, const Reply& reply) {
        const TaskStart task = StartOf(request.task());
        const Status why = request.reason().empty() ? OkStatus() : DecodeStatus(request.reason());
        FinishEmpty(reply, request.left() ? c.Leave(task, why, Now())
                                          : c.SetJoined(task, request.joined(), Now()));
      });
  AddHandler<wire::BarrierRequest>(
      handlers, method::kBarrier, coordinator,
      [](Coordinator& c, const wire::BarrierRequest& request, const Reply& reply) {
        c.Barrier(
            StartOf(request.task()), request.name(),
            {request.numbers().begin(), request.numbers().end()}, WaitOf(request.wait_ms()),
            [reply](const Status& status) { FinishEmpty(reply, status); }, Now());
      });
}

void AddValues(RpcHandlers& handlers, const CoordinatorPtr& coordinator) {
  namespace method = coordinator_method;
  AddHandler<wire::KeyValueRequest>(
      handlers, method::kInsert, coordinator,
      [](Coordinator& c, const wire::KeyValueRequest& request, const Reply& reply) {
        FinishEmpty(reply, c.Insert(request.key(), request.value(), request.overwrite()));
      });
  AddHandler<wire::KeyValueRequest>(
      handlers, method::kGet, coordinator,
      [](Coordinator& c, const wire::KeyValueRequest& request, const Reply& reply) {
        c.Get(request.key(), WaitOf(request.wait_ms()),
              [reply](const Result<std::string>& value) { reply->Finish(value); });
      });
  AddHandler<wire::KeyValueRequest>(
      handlers, method::kList, coordinator,
      [](Coordinator& c, const wire::KeyValueRequest& request, const Reply& reply) {
        wire::KeyValues values;
        for (auto& [key, value] : c.List(request.key())) {
          values.add_keys(key);
          values.add_values(value);
        }
        reply->Finish(ToBytes(values));
      });
  AddHandler<wire::KeyValueRequest>(
      handlers, method::kDelete, coordinator,
      [](Coordinator& c, const wire::KeyValueRequest& request, const Reply& reply) {
        c.Delete(request.key(), request.directory());
        reply->Finish(std::string());
      });
}

}  // namespace

Result<std::unique_ptr<CoordinatorService>> CoordinatorService::Create(
    const ClusterSpec& cluster, std::chrono::milliseconds heartbeat, uint64_t incarnation,
    Coordinator::OnRefused on_refused) {
  LS_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> coordinator,
                      Coordinator::Create(cluster, heartbeat, std::move(on_refused)));
  return std::make_unique<CoordinatorService>(std::move(coordinator), incarnation);
}

CoordinatorService::CoordinatorService(std::shared_ptr<Coordinator> coordinator,
                                       uint64_t incarnation)
    : coordinator_(std::move(coordinator)), incarnation_(incarnation) {
  clock_ = std::thread([this] { Tick(); });
}

CoordinatorService::~CoordinatorService() {
  Stop(Unavailable("the coordinator has stopped"));
  clock_.join();
}

void CoordinatorService::Tick() {
  const auto period = std::clamp(coordinator_->heartbeat() / 16, std::chrono::milliseconds(2),
                                 std::chrono::milliseconds(50));
  const MutexLock lock(mu_);
  while (!stopping_) {
    stop_.WaitUntil(mu_, Deadline::After(period));
    mu_.Unlock();
    coordinator_->Advance(Now());
    mu_.Lock();
  }
}

void CoordinatorService::AddHandlers(RpcHandlers& handlers) const {
  AddMembership(handlers, coordinator_, incarnation_);
  AddValues(handlers, coordinator_);
}

void CoordinatorService::Stop(const Status& why) {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    stop_.NotifyAll();
  }
  coordinator_->Close(why);
}

}  // namespace lockstep::cluster::internal
