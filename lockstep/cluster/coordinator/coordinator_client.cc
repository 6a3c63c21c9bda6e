#include "lockstep/cluster/coordinator/coordinator_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/coordinator_methods.h"
#include "lockstep/cluster/internal/coordinator_wire.h"
#include "lockstep/cluster/internal/proto_io.h"
#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/rpc_sessions.h"
#include "lockstep/cluster/internal/rpc_status.h"

namespace lockstep::cluster {
namespace {

using internal::CallDeadline;
using internal::FromBytes;
using internal::ToBytes;
using internal::WaitMs;
using std::chrono::milliseconds;

// How long the call of a watch may take beyond the wait that it asks for.
constexpr milliseconds kGrace{5000};
// A watch is renewed this often although nothing changed.
constexpr milliseconds kWatchPeriod{20'000};

template <class Request>
Request RequestOf(const CoordinatorClient::Options& options) {
  Request request;
  request.mutable_task()->set_number(options.number);
  request.mutable_task()->set_incarnation(options.incarnation);
  return request;
}

}  // namespace

Result<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Create(Options options) {
  LS_ASSIGN_OR_RETURN(std::string fingerprint, options.cluster.Fingerprint());
  const ClusterSpec::Task& host = options.cluster.tasks()[static_cast<size_t>(options.coordinator)];
  LS_ASSIGN_OR_RETURN(
      std::shared_ptr<internal::RpcChannel> channel,
      internal::RpcChannel::Create({.address = options.address.value_or(host.address),
                                    .peer = host.id.ToString(),
                                    .security = options.security}));
  return std::make_unique<CoordinatorClient>(std::move(options), std::move(fingerprint),
                                             std::move(channel));
}

CoordinatorClient::CoordinatorClient(Options options, std::string fingerprint,
                                     std::shared_ptr<internal::RpcChannel> channel)
    : options_(std::move(options)),
      fingerprint_(std::move(fingerprint)),
      channel_(std::move(channel)) {
  view_.members.resize(static_cast<size_t>(options_.cluster.size()));
}

CoordinatorClient::~CoordinatorClient() {
  StopThreads();
}

void CoordinatorClient::StopThreads() {
  std::shared_ptr<internal::RpcPending> watch;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
    watch = watch_;
  }
  if (watch != nullptr) {
    watch->Cancel();
  }
  {
    const MutexLock lock(mu_);
    while (watching_ || starting_ > 0) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    }
    watch_ = nullptr;
  }
  if (beats_.joinable()) {
    beats_.join();
  }
}

Result<std::string> CoordinatorClient::Call(std::string_view name, Result<std::string> body,
                                            const Deadline& deadline) const {
  if (!body.ok()) {
    return body;
  }
  return channel_->Call(name, std::move(body).value(), {.deadline = deadline});
}

Status CoordinatorClient::RegisterOnce(const Deadline& deadline) {
  auto request = RequestOf<wire::RegisterTaskRequest>(options_);
  request.set_protocol_version(internal::kProtocolVersion);
  request.set_name(options_.cluster.tasks()[static_cast<size_t>(options_.number)].id.ToString());
  request.set_fingerprint(fingerprint_);
  request.set_cluster(options_.cluster.ToJson());
  LS_ASSIGN_OR_RETURN(std::string body, ToBytes(request));
  LS_ASSIGN_OR_RETURN(const std::string reply,
                      channel_->Call(internal::coordinator_method::kRegister, std::move(body),
                                     {.deadline = deadline, .wait_for_ready = true}));
  LS_ASSIGN_OR_RETURN(const auto answer, FromBytes<wire::RegisterTaskReply>(reply));
  const MutexLock lock(mu_);
  heartbeat_ = milliseconds(std::max<uint32_t>(1, answer.heartbeat_ms()));
  return OkStatus();
}

Status CoordinatorClient::Register(const Deadline& deadline) {
  constexpr milliseconds kRetry{100};
  const Deadline patience = std::min(deadline, Deadline::After(options_.patience));
  for (;;) {
    const Status status = RegisterOnce(deadline);
    if (status.ok()) {
      break;
    }
    if (status.code() == StatusCode::kDeadlineExceeded) {
      return DeadlineExceeded(fmt::format("the coordinator {} was not there in time: {}",
                                          channel_->peer(), status.message()));
    }
    if (status.code() != StatusCode::kAlreadyExists || patience.expired()) {
      return status;
    }
    const MutexLock lock(mu_);
    if (stopping_) {
      return Cancelled("the task is being stopped");
    }
    changed_.WaitUntil(mu_, std::min(patience, Deadline::After(kRetry)));
  }
  beats_ = std::thread([this] { Beat(); });
  Watch();
  return OkStatus();
}

void CoordinatorClient::Beat() {
  Deadline::Clock::time_point heard = Deadline::Clock::now();
  Result<std::string> body = ToBytes(RequestOf<wire::HeartbeatRequest>(options_));
  milliseconds heartbeat;
  {
    const MutexLock lock(mu_);
    heartbeat = heartbeat_;
  }
  for (;;) {
    {
      const MutexLock lock(mu_);
      const Deadline next = Deadline::After(std::max(heartbeat / 4, milliseconds(1)));
      while (!stopping_ && changed_.WaitUntil(mu_, next)) {
      }
      if (stopping_) {
        return;
      }
    }
    const Status status = Call(internal::coordinator_method::kHeartbeat, body,
                               Deadline::After(std::max(heartbeat / 2, milliseconds(10))))
                              .status();
    const auto now = Deadline::Clock::now();
    if (status.ok()) {
      heard = now;
      Watch();
    } else if (status.code() == StatusCode::kAborted) {
      Fail(status);
      return;
    } else if (now - heard > heartbeat * 3 / 2) {
      Fail(Unavailable(fmt::format("{}, which coordinates the job, is lost: {}", channel_->peer(),
                                   status.message())));
      return;
    }
  }
}

void CoordinatorClient::Watch() {
  {
    const MutexLock lock(mu_);
    if (watching_ || stopping_) {
      return;
    }
    watching_ = true;
  }
  StartWatch();
}

void CoordinatorClient::StartWatch() {
  auto request = RequestOf<wire::WatchRequest>(options_);
  request.set_wait_ms(static_cast<uint32_t>(kWatchPeriod.count()));
  uint64_t sequence = 0;
  {
    const MutexLock lock(mu_);
    ++starting_;
    sequence = ++started_;
    request.set_after(view_.number);
  }
  std::shared_ptr<internal::RpcPending> pending =
      channel_->Start(internal::coordinator_method::kWatch, ToBytes(request).value(),
                      {.deadline = Deadline::After(kWatchPeriod + kGrace)},
                      [this](const Result<std::string>& reply) { OnView(reply); });
  bool cancel = false;
  {
    const MutexLock lock(mu_);
    cancel = stopping_;
    if (sequence == started_) {
      watch_ = pending;
    }
  }
  if (cancel) {
    pending->Cancel();
  }
  const MutexLock lock(mu_);
  --starting_;
  changed_.NotifyAll();
}

bool CoordinatorClient::TakeView(const std::string& reply) {
  const auto message = FromBytes<wire::View>(reply);
  if (!message.ok()) {
    return false;
  }
  const Result<MembershipView> view = internal::FromWire(*message, options_.cluster.size());
  if (!view.ok()) {
    return false;
  }
  {
    const MutexLock lock(mu_);
    if (view->number <= view_.number || stopping_) {
      return true;
    }
    view_ = *view;
  }
  if (options_.on_view) {
    options_.on_view(*view);
  }
  return true;
}

void CoordinatorClient::OnView(const Result<std::string>& reply) {
  const bool again = reply.ok() && TakeView(*reply);
  {
    const MutexLock lock(mu_);
    if (!again || stopping_) {
      // The next heartbeat that is answered begins a new watch. After this, the object may go.
      watching_ = false;
      changed_.NotifyAll();
      return;
    }
  }
  StartWatch();
}

void CoordinatorClient::Fail(const Status& why) {
  {
    const MutexLock lock(mu_);
    failure_ = why;
    changed_.NotifyAll();
  }
  if (options_.on_failure) {
    options_.on_failure(why);
  }
}

Status CoordinatorClient::Leave(const Status& why, const Deadline& deadline) {
  auto request = RequestOf<wire::ActivityRequest>(options_);
  request.set_left(true);
  if (!why.ok()) {
    request.set_reason(internal::EncodeStatus(why));
  }
  const Status status =
      Call(internal::coordinator_method::kSetActivity, ToBytes(request), deadline).status();
  StopThreads();
  return status;
}

Status CoordinatorClient::SetJoined(bool joined, const Deadline& deadline) {
  auto request = RequestOf<wire::ActivityRequest>(options_);
  request.set_joined(joined);
  return Call(internal::coordinator_method::kSetActivity, ToBytes(request), deadline).status();
}

Status CoordinatorClient::WaitForTasks(const std::vector<int>& numbers, const Deadline& deadline) {
  auto request = RequestOf<wire::WaitForTasksRequest>(options_);
  request.mutable_numbers()->Assign(numbers.begin(), numbers.end());
  request.set_wait_ms(WaitMs(deadline));
  return Call(internal::coordinator_method::kWaitForTasks, ToBytes(request), CallDeadline(deadline))
      .status();
}

Status CoordinatorClient::Barrier(const std::string& name, const std::vector<int>& numbers,
                                  const Deadline& deadline) {
  auto request = RequestOf<wire::BarrierRequest>(options_);
  request.set_name(name);
  request.mutable_numbers()->Assign(numbers.begin(), numbers.end());
  request.set_wait_ms(WaitMs(deadline));
  return Call(internal::coordinator_method::kBarrier, ToBytes(request), CallDeadline(deadline))
      .status();
}

Status CoordinatorClient::Insert(const std::string& key, const std::string& value, bool overwrite,
                                 const Deadline& deadline) {
  auto request = RequestOf<wire::KeyValueRequest>(options_);
  request.set_key(key);
  request.set_value(value);
  request.set_overwrite(overwrite);
  return Call(internal::coordinator_method::kInsert, ToBytes(request), deadline).status();
}

Result<std::string> CoordinatorClient::Get(const std::string& key, const Deadline& deadline) {
  auto request = RequestOf<wire::KeyValueRequest>(options_);
  request.set_key(key);
  request.set_wait_ms(WaitMs(deadline));
  return Call(internal::coordinator_method::kGet, ToBytes(request), CallDeadline(deadline));
}

Result<std::string> CoordinatorClient::TryGet(const std::string& key, const Deadline& deadline) {
  auto request = RequestOf<wire::KeyValueRequest>(options_);
  request.set_key(key);
  return Call(internal::coordinator_method::kGet, ToBytes(request), deadline);
}

Result<KeyValueStore::Entries> CoordinatorClient::List(const std::string& prefix,
                                                       const Deadline& deadline) {
  auto request = RequestOf<wire::KeyValueRequest>(options_);
  request.set_key(prefix);
  LS_ASSIGN_OR_RETURN(const std::string reply,
                      Call(internal::coordinator_method::kList, ToBytes(request), deadline));
  LS_ASSIGN_OR_RETURN(const auto values, FromBytes<wire::KeyValues>(reply));
  if (values.keys_size() != values.values_size()) {
    return Internal("a list of shared values with more keys than values");
  }
  KeyValueStore::Entries entries;
  for (int i = 0; i < values.keys_size(); ++i) {
    entries.emplace_back(values.keys(i), values.values(i));
  }
  return entries;
}

Status CoordinatorClient::Delete(const std::string& key, bool directory, const Deadline& deadline) {
  auto request = RequestOf<wire::KeyValueRequest>(options_);
  request.set_key(key);
  request.set_directory(directory);
  return Call(internal::coordinator_method::kDelete, ToBytes(request), deadline).status();
}

MembershipView CoordinatorClient::view() const {
  const MutexLock lock(mu_);
  return view_;
}

Status CoordinatorClient::failure() const {
  const MutexLock lock(mu_);
  return failure_;
}

milliseconds CoordinatorClient::heartbeat() const {
  const MutexLock lock(mu_);
  return heartbeat_;
}

}  // namespace lockstep::cluster
