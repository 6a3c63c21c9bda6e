#include "lockstep/net/ucx/ucx_link.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/hmac.h"

namespace lockstep::net::ucx {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;
using internal::FrameBytes;
using internal::FrameType;

// A piece, which with its headers is one segment (ucx_worker.cc): large, since a call of the system
// for each costs more than the copies; small messages wait behind the pieces that are under way.
constexpr uint64_t kChunkBytes = uint64_t{1008} << 10;
constexpr int kChunksInFlight = 2;

}  // namespace

struct UcxLink::Message {
  UcxLink* link;
  Envelope envelope;
  std::vector<std::byte> bytes;  // a frame with its body
  std::shared_ptr<PushJob> job;  // of a data frame; its payload is the second part
  ucp_dt_iov_t parts[2];
};

Result<std::unique_ptr<UcxLink>> UcxLink::Create(std::shared_ptr<UcxWorker> worker, PeerId self,
                                                 PeerId peer, const std::string& address,
                                                 const LinkTokens& tokens,
                                                 internal::LinkSink& sink) {
  LS_ASSIGN_OR_RETURN(const uint64_t number, RandomNonZero());
  auto link = std::make_unique<UcxLink>(std::move(worker), self, peer, tokens, number, sink);
  const Lock lock(link->worker_->lock());
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxLink::OnError;
  params.err_handler.arg = link.get();
  const ucs_status_t status = ucp_ep_create(link->worker_->worker(), &params, &link->endpoint_);
  if (status != UCS_OK) {
    return UcxError("connecting with UCX", status);
  }
  return link;
}

UcxLink::UcxLink(std::shared_ptr<UcxWorker> worker, PeerId self, PeerId peer,
                 const LinkTokens& tokens, uint64_t number, internal::LinkSink& sink)
    : worker_(std::move(worker)),
      self_(self),
      peer_(peer),
      tokens_(tokens),
      number_(number),
      sink_(sink) {}

UcxLink::~UcxLink() {
  Close();
}

Status UcxLink::Start() {
  const std::lock_guard<std::recursive_mutex> poll_lock(worker_->reactor().poll_lock());
  if (!closed_) {
    worker_->AddLink(this);
  }
  return OkStatus();
}

void UcxLink::Greet() {
  const Lock lock(worker_->lock());
  // It may have failed already.
  if (!failed_) {
    Post(std::make_unique<Message>(), kGreetingId);
  }
}

bool UcxLink::SaidByPeer(const Envelope& envelope) const {
  return CRYPTO_memcmp(envelope.token.data(), tokens_.theirs.data(), envelope.token.size()) == 0;
}

void UcxLink::OnGreeting(const Envelope& envelope) {
  if (!SaidByPeer(envelope) || envelope.link == 0 || failed_) {
    return;
  }
  if (greeted_ && envelope.link != peer_number_) {
    failed_ = true;
    worker_->Report(this, {}, Unavailable("it has ended this connection, and connects anew"));
    return;
  }
  greet_again_ = greet_again_ || envelope.link != peer_number_;
  peer_number_ = envelope.link;
  greeted_ = greeted_ || envelope.echo == number_;
  worker_->reactor().Wake();
}

void UcxLink::OnEnd() {
  if (!failed_) {
    failed_ = true;
    worker_->Report(this, {}, Unavailable("it has ended this connection"));
  }
}

bool UcxLink::Expects(const Envelope& envelope) const {
  return envelope.echo == number_ && SaidByPeer(envelope);
}

void UcxLink::Post(std::unique_ptr<Message> message, unsigned id) {
  Message& m = *message;
  m.link = this;
  m.envelope = {self_, peer_, tokens_.mine, number_, peer_number_};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = [](void* request, ucs_status_t status, void* user) {
    OnSent(request, status, user);
  };
  param.user_data = message.get();
  const void* buffer = m.bytes.data();
  size_t count = m.bytes.size();
  if (m.job != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    m.parts[0] = {m.bytes.data(), m.bytes.size()};
    buffer = m.parts;
    count = 2;
  }
  in_flight_ += 1;
  ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_, id, &m.envelope, sizeof(m.envelope), buffer, count, &param);
  if (UCS_PTR_IS_PTR(request)) {
    static_cast<void>(message.release());  // OnSent takes it back
    worker_->reactor().Wake();
  } else {
    Finished(m, UCS_PTR_STATUS(request));
  }
}

void UcxLink::OnSent(void* request, ucs_status_t status, void* message) {
  const std::unique_ptr<Message> owned(static_cast<Message*>(message));
  owned->link->Finished(*owned, status);
  ucp_request_free(request);
}

void UcxLink::Finished(Message& message, ucs_status_t status) {
  in_flight_ -= 1;
  if (message.job != nullptr) {
    PushJob& job = *message.job;
    activity_ += 1;
    job.in_flight -= 1;
    const bool all = job.sent == job.bytes || job.cancelled;
    if (job.in_flight == 0 && all && job.done != nullptr && status == UCS_OK) {
      finished_.push_back(std::exchange(job.done, nullptr));
    }
  }
  if (status != UCS_OK && !failed_) {
    failed_ = true;
    worker_->Report(this, {}, UcxError("sending with UCX", status));
  }
}

void UcxLink::OnError(void* link, ucp_ep_h, ucs_status_t status) {
  auto& self = *static_cast<UcxLink*>(link);
  if (!self.failed_) {
    self.failed_ = true;
    self.worker_->Report(&self, {}, UcxError("its connection ended", status));
  }
}

void UcxLink::SendFrame(const Frame& frame, std::span<const std::byte> body) {
  FrameBytes header;
  const size_t header_bytes = internal::EncodeFrame(frame, header);
  auto message = std::make_unique<Message>();
  message->bytes.reserve(header_bytes + body.size());
  message->bytes.assign(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  message->bytes.insert(message->bytes.end(), body.begin(), body.end());
  {
    const Lock lock(worker_->lock());
    said_bye_ = said_bye_ || frame.type == FrameType::kBye;
    if (!failed_ && (!greeted_ || !early_.empty())) {
      early_.push_back(std::move(message));
    } else if (!failed_) {
      Post(std::move(message));
    }
  }
}

void UcxLink::Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) {
  {
    const Lock lock(worker_->lock());
    pushes_.push_back(std::make_shared<PushJob>(PushJob{
        transfer, static_cast<const std::byte*>(payload), bytes, 0, 0, false, std::move(done)}));
  }
  worker_->reactor().Wake();
}

bool UcxLink::CancelPush(uint64_t transfer) {
  const Lock lock(worker_->lock());
  const auto found = std::find_if(pushes_.begin(), pushes_.end(), [transfer](const auto& job) {
    return job->transfer == transfer;
  });
  if (found == pushes_.end()) {
    return true;
  }
  (*found)->cancelled = true;
  const bool free = (*found)->in_flight == 0;
  pushes_.erase(found);
  return free;
}

void UcxLink::Pull(const Frame& announce, void* target, MoveDone done) {
  if (announce.header.bytes == 0) {
    const Lock lock(worker_->lock());
    finished_.push_back(std::move(done));
  } else {
    streams_.Add(announce.transfer, target, announce.header.bytes, std::move(done));
  }
  Frame pull;
  pull.type = FrameType::kPull;
  pull.transfer = announce.transfer;
  SendFrame(pull, {});
}

bool UcxLink::CancelPull(uint64_t transfer) {
  streams_.Remove(transfer);
  return true;
}

bool UcxLink::Flushed() const {
  const Lock lock(worker_->lock());
  // What only the system has taken is lost if this process ends with input unread. The peer reads
  // all of it, up to the bye, and then ends the connection.
  return failed_ || (!said_bye_ && in_flight_ == 0 && early_.empty());
}

bool UcxLink::SendQueued() {
  bool worked = false;
  if (greet_again_ && !failed_) {
    greet_again_ = false;
    Post(std::make_unique<Message>(), kGreetingId);
    worked = true;
  }
  while (greeted_ && !failed_ && !early_.empty()) {
    std::unique_ptr<Message> message = std::move(early_.front());
    early_.pop_front();
    Post(std::move(message));
    worked = true;
  }
  while (greeted_ && !failed_ && !pushes_.empty()) {
    const std::shared_ptr<PushJob> job = pushes_.front();
    if (job->in_flight >= kChunksInFlight) {
      break;
    }
    const uint64_t chunk = std::min(kChunkBytes, job->bytes - job->sent);
    worked = true;
    if (chunk == 0) {
      finished_.push_back(std::exchange(job->done, nullptr));
      pushes_.pop_front();
      continue;
    }
    Frame frame;
    frame.type = FrameType::kData;
    frame.transfer = job->transfer;
    frame.value = job->sent;
    FrameBytes header;
    const size_t header_bytes = internal::EncodeFrame(frame, header);
    auto message = std::make_unique<Message>();
    message->bytes.assign(header.begin(),
                          header.begin() + static_cast<std::ptrdiff_t>(header_bytes));
    message->job = job;
    message->parts[1] = {const_cast<std::byte*>(job->payload + job->sent), chunk};
    job->sent += chunk;
    job->in_flight += 1;
    if (job->sent == job->bytes) {
      pushes_.pop_front();
    }
    Post(std::move(message));
  }
  if (!finished_.empty()) {
    worker_->Report(this, {}, OkStatus());
  }
  return worked;
}

bool UcxLink::HasWork() const {
  const bool sends =
      greeted_ &&
      (!early_.empty() || (!pushes_.empty() && pushes_.front()->in_flight < kChunksInFlight));
  return !finished_.empty() || (!failed_ && (greet_again_ || sends));
}

void UcxLink::OnMessage(std::span<const std::byte> message) {
  activity_ += 1;
  const Result<internal::ParsedFrame> parsed = internal::ParseFrame(message);
  if (parsed.ok() && parsed->frame.type == FrameType::kData) {
    MoveDone finished;
    const Status status =
        streams_.OnData(parsed->frame, message.subspan(parsed->header_bytes), &finished);
    if (!status.ok()) {
      worker_->Report(this, {}, status);
    }
    if (finished) {
      finished_.push_back(std::move(finished));
    }
    return;
  }
  worker_->Report(this, {message.begin(), message.end()}, OkStatus());
}

void UcxLink::Deliver(std::span<const std::byte> frame, const Status& down) {
  while (true) {
    MoveDone done;
    {
      const Lock lock(worker_->lock());
      if (finished_.empty()) {
        break;
      }
      done = std::move(finished_.front());
      finished_.pop_front();
    }
    done(OkStatus());
  }
  Status status = down;
  if (status.ok() && !frame.empty()) {
    const Result<internal::ParsedFrame> parsed = internal::ParseFrame(frame);
    status = parsed.ok() ? sink_.OnFrame(parsed->frame, frame.subspan(parsed->header_bytes))
                         : parsed.status();
  }
  if (!status.ok()) {
    sink_.OnDown(status);
  }
}

void UcxLink::Close() {
  // The reactor may be gone when a closed link is destroyed.
  if (closed_.exchange(true)) {
    return;
  }
  const std::lock_guard<std::recursive_mutex> poll_lock(worker_->reactor().poll_lock());
  worker_->RemoveLink(this);
  const Lock lock(worker_->lock());
  // First of all, so that nothing more is reported of a link that the worker has forgotten, not
  // even that its last message could not be sent.
  const bool alive = !std::exchange(failed_, true);
  if (alive && greeted_) {
    Post(std::make_unique<Message>(), kEndId);
  }
  pushes_.clear();
  early_.clear();
  streams_.Clear();
  if (endpoint_ == nullptr) {
    return;
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &param);
  endpoint_ = nullptr;
  if (UCS_PTR_IS_PTR(request)) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
      worker_->ProgressOnce();
    }
    ucp_request_free(request);
  }
  while (in_flight_ > 0) {
    worker_->ProgressOnce();
  }
  finished_.clear();
  // What has arrived for other links meanwhile has used up the event that would tell of it.
  worker_->reactor().Wake();
}

}  // namespace lockstep::net::ucx
