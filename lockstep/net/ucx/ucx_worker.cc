#include "lockstep/net/ucx/ucx_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/net/ucx/ucx_link.h"

namespace lockstep::net::ucx {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

Status Configure(ucp_config_t* config, const char* name, const std::string& value) {
  const ucs_status_t status =
      value.empty() ? UCS_OK : ucp_config_modify(config, name, value.c_str());
  return status == UCS_OK
             ? OkStatus()
             : InvalidArgument(fmt::format("UCX does not take {} = '{}'", name, value));
}

}  // namespace

Status UcxError(const char* what, ucs_status_t status) {
  const std::string message = fmt::format("{}: {}", what, ucs_status_string(status));
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return ResourceExhausted(message);
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return InvalidArgument(message);
    default:
      return Unavailable(message);
  }
}

Result<std::shared_ptr<UcxWorker>> UcxWorker::Create(internal::Reactor& reactor, PeerId self,
                                                     const UcxOptions& options) {
  auto made = std::make_shared<UcxWorker>(reactor, self);
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return UcxError("UCX configuration", status);
  }
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> owned(config, ucp_config_release);
  LS_TRY(Configure(config, "TLS", options.transports));
  LS_TRY(Configure(config, "NET_DEVICES", options.net_devices));
  if (options.transports.empty() || options.transports.find("tcp") != std::string::npos) {
    // A piece of a payload is one segment of UCX: with the default of 8 KiB it is put together from
    // many, which costs a copy and half of the rate.
    LS_TRY(Configure(config, "TX_SEG_SIZE", "1m"));
    LS_TRY(Configure(config, "RX_SEG_SIZE", "1m"));
    // Else a peer behind a firewall that drops what it does not let through blocks us for minutes.
    LS_TRY(Configure(config, "CONN_NB", "y"));
    if (options.first_port > 0) {
      const int last = std::max(options.first_port, options.last_port);
      LS_TRY(Configure(config, "PORT_RANGE", fmt::format("{}-{}", options.first_port, last)));
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  status = ucp_init(&params, config, &made->context_);
  if (status != UCS_OK) {
    return UcxError("UCX", status);
  }
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(made->context_, &worker_params, &made->worker_);
  if (status != UCS_OK) {
    return UcxError("UCX worker", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kMessageId;
  handler.cb = &UcxWorker::OnMessage;
  handler.arg = made.get();
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  status = ucp_worker_set_am_recv_handler(made->worker_, &handler);
  if (status == UCS_OK) {
    handler.id = kGreetingId;
    handler.cb = &UcxWorker::OnGreeting;
    status = ucp_worker_set_am_recv_handler(made->worker_, &handler);
  }
  if (status == UCS_OK) {
    handler.id = kEndId;
    handler.cb = &UcxWorker::OnEnd;
    status = ucp_worker_set_am_recv_handler(made->worker_, &handler);
  }
  if (status == UCS_OK) {
    status = ucp_worker_get_efd(made->worker_, &made->event_fd_);
  }
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  if (status == UCS_OK) {
    status = ucp_worker_get_address(made->worker_, &address, &address_bytes);
  }
  if (status != UCS_OK) {
    return UcxError("UCX worker", status);
  }
  made->address_.assign(reinterpret_cast<const char*>(address), address_bytes);
  ucp_worker_release_address(made->worker_, address);
  return made;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) {
    ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) {
    ucp_cleanup(context_);
  }
}

Status UcxWorker::Start() {
  LS_TRY(reactor_.AddDescriptor(event_fd_, [] {}));  // Poll does it
  reactor_.AddPoller(this);
  started_ = true;
  return OkStatus();
}

void UcxWorker::Stop() {
  if (started_) {
    reactor_.RemoveDescriptor(event_fd_);
    reactor_.RemovePoller(this);
    started_ = false;
  }
}

void UcxWorker::AddLink(UcxLink* link) {
  const Lock lock(lock_);
  links_[link->peer()] = link;
  // It may be of a former link of the peer; then another one comes.
  const auto greeting = greetings_.find(link->peer());
  if (greeting != greetings_.end()) {
    link->OnGreeting(greeting->second);
  }
}

void UcxWorker::RemoveLink(UcxLink* link) {
  const Lock lock(lock_);
  const auto found = links_.find(link->peer());
  if (found != links_.end() && found->second == link) {
    links_.erase(found);
  }
  std::erase_if(arrivals_, [link](const Arrival& arrival) { return arrival.link == link; });
}

void UcxWorker::Report(UcxLink* link, std::vector<std::byte> frame, Status down) {
  arrivals_.push_back({link, std::move(frame), std::move(down)});
}

bool UcxWorker::Greeted(const UcxLink& link) {
  const Lock lock(lock_);
  return link.greeted();
}

ucs_status_t UcxWorker::OnGreeting(void* self, const void* header, size_t header_bytes, void*,
                                   size_t, const ucp_am_recv_param_t*) {
  auto& worker = *static_cast<UcxWorker*>(self);
  Envelope envelope{};
  // One a task, so that strangers cannot fill memory.
  constexpr int32_t kMaxTasks = 1 << 16;
  if (header_bytes != sizeof(envelope)) {
    return UCS_OK;
  }
  std::memcpy(&envelope, header, sizeof(envelope));
  if (envelope.to != worker.self_ || envelope.from < 0 || envelope.from >= kMaxTasks) {
    return UCS_OK;
  }
  worker.greetings_[envelope.from] = envelope;
  const auto found = worker.links_.find(envelope.from);
  if (found != worker.links_.end()) {
    found->second->OnGreeting(envelope);
  }
  return UCS_OK;
}

UcxLink* UcxWorker::Expecting(const void* header, size_t header_bytes) const {
  Envelope envelope{};
  if (header_bytes != sizeof(envelope)) {
    return nullptr;
  }
  std::memcpy(&envelope, header, sizeof(envelope));
  const auto found = links_.find(envelope.from);
  const bool ours =
      found != links_.end() && envelope.to == self_ && found->second->Expects(envelope);
  return ours ? found->second : nullptr;
}

ucs_status_t UcxWorker::OnEnd(void* self, const void* header, size_t header_bytes, void*, size_t,
                              const ucp_am_recv_param_t*) {
  if (UcxLink* link = static_cast<UcxWorker*>(self)->Expecting(header, header_bytes)) {
    link->OnEnd();
  }
  return UCS_OK;
}

ucs_status_t UcxWorker::OnMessage(void* self, const void* header, size_t header_bytes, void* data,
                                  size_t bytes, const ucp_am_recv_param_t* param) {
  UcxLink* link = static_cast<UcxWorker*>(self)->Expecting(header, header_bytes);
  // What is not ours is dropped.
  if (link != nullptr && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    link->OnMessage({static_cast<const std::byte*>(data), bytes});
  }
  return UCS_OK;
}

bool UcxWorker::Poll() {
  bool worked = false;
  {
    const Lock lock(lock_);
    worked = ucp_worker_progress(worker_) != 0;
    for (const auto& [peer, link] : links_) {
      worked = link->SendQueued() || worked;
    }
  }
  // One at a time, since what is delivered may end links, whose arrivals go with them. The
  // reactor's poll lock keeps links from ending meanwhile in another thread.
  while (std::optional<Arrival> arrival = NextArrival()) {
    arrival->link->Deliver(arrival->frame, arrival->down);
    worked = true;
  }
  return worked;
}

std::optional<UcxWorker::Arrival> UcxWorker::NextArrival() {
  const Lock lock(lock_);
  if (arrivals_.empty()) {
    return std::nullopt;
  }
  Arrival next = std::move(arrivals_.front());
  arrivals_.pop_front();
  return next;
}

bool UcxWorker::PrepareSleep() {
  const Lock lock(lock_);
  for (const auto& [peer, link] : links_) {
    if (link->HasWork()) {
      return false;
    }
  }
  return arrivals_.empty() && ucp_worker_arm(worker_) == UCS_OK;
}

}  // namespace lockstep::net::ucx
