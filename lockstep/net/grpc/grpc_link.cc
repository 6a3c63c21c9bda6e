#include "lockstep/net/grpc/grpc_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lockstep::net::grpc_link {
namespace {

using internal::FrameBytes;
using internal::FrameType;
using internal::SealCode;

// Of a payload: large enough to be cheap, small enough that frames pass between.
constexpr uint64_t kChunkBytes = uint64_t{500} << 10;
// What has arrived and waits for the reactor; beyond it the stream's own flow control holds the
// peer. More than the window of small messages.
constexpr size_t kMaxArrivedBytes = size_t{8} << 20;
constexpr size_t kArrivalOverheadBytes = 256;

std::span<const std::byte> BytesOf(const grpc::Slice& slice) {
  return std::as_bytes(std::span(slice.begin(), slice.size()));
}

// Takes up to `bytes` from the front of the pieces.
std::vector<std::byte> TakeFront(std::vector<std::span<const std::byte>>& pieces, size_t bytes) {
  std::vector<std::byte> front;
  for (std::span<const std::byte>& piece : pieces) {
    const size_t taken = std::min(piece.size(), bytes - front.size());
    front.insert(front.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(taken));
    piece = piece.subspan(taken);
    if (front.size() == bytes) {
      break;
    }
  }
  return front;
}

}  // namespace

Pipe::Pipe(internal::Reactor& reactor, std::shared_ptr<Stream> stream, StreamSeals seals,
           std::string first)
    : stream_(std::move(stream)),
      sealed_(seals.send.has_value()),
      receive_seal_(std::move(seals.receive)),
      reactor_(&reactor),
      send_seal_(std::move(seals.send)),
      first_(std::move(first)) {}

void Pipe::Start() {
  stream_->Follow(shared_from_this());
  {
    const MutexLock lock(mu_);
    if (first_.empty()) {
      writing_ = false;
      WriteNext();
    } else {
      const grpc::Slice slice(first_);
      stream_->Write(grpc::ByteBuffer(&slice, 1), false);
    }
  }
  stream_->Read();
}

Result<grpc::ByteBuffer> Pipe::MakeMessage(const Frame& frame, std::span<const std::byte> body) {
  FrameBytes header;
  const size_t header_bytes = internal::EncodeFrame(frame, header);
  const size_t seal_bytes = sealed_ ? sizeof(SealCode) : 0;
  grpc::Slice slice(seal_bytes + header_bytes + body.size());
  auto* out = const_cast<uint8_t*>(slice.begin());
  std::memcpy(out + seal_bytes, header.data(), header_bytes);
  if (!body.empty()) {
    std::memcpy(out + seal_bytes + header_bytes, body.data(), body.size());
  }
  if (sealed_) {
    const std::array<std::span<const std::byte>, 1> parts = {BytesOf(slice).subspan(seal_bytes)};
    LS_ASSIGN_OR_RETURN(const SealCode seal, send_seal_->Next(parts));
    std::memcpy(out, seal.data(), seal.size());
  }
  return grpc::ByteBuffer(&slice, 1);
}

void Pipe::Fail(const Status& why) {
  ended_ = true;
  Arrival arrival;
  arrival.down = why;
  arrivals_.push_back(std::move(arrival));
  if (reactor_ != nullptr) {
    reactor_->Wake();
  }
}

void Pipe::WriteNext() {
  if (writing_ || reactor_ == nullptr) {
    return;
  }
  Frame frame;
  std::vector<std::byte> owned;
  std::span<const std::byte> body;
  MoveDone done;
  if (!queued_.empty()) {
    frame = std::move(queued_.front().frame);
    owned = std::move(queued_.front().body);
    body = owned;
    queued_.pop_front();
  } else if (!pushes_.empty()) {
    PushJob job = std::move(pushes_.front());
    pushes_.pop_front();
    frame.type = FrameType::kData;
    frame.transfer = job.transfer;
    frame.value = job.sent;
    body = {job.payload + job.sent, std::min(kChunkBytes, job.bytes - job.sent)};
    job.sent += body.size();
    if (job.sent == job.bytes) {
      done = std::move(job.done);
    } else {
      pushes_.push_back(std::move(job));  // payloads take turns
    }
  } else {
    return;
  }
  Result<grpc::ByteBuffer> message = MakeMessage(frame, body);
  if (!message.ok()) {
    Fail(message.status());
    return;
  }
  writing_ = true;
  writing_data_ = frame.type == FrameType::kData;
  said_bye_ = said_bye_ || frame.type == FrameType::kBye;
  stream_->Write(std::move(message).value(), said_bye_);
  if (done) {
    Arrival arrival;
    arrival.done = std::move(done);
    arrivals_.push_back(std::move(arrival));
    reactor_->Wake();
  }
}

void Pipe::SendFrame(const Frame& frame, std::span<const std::byte> body) {
  const MutexLock lock(mu_);
  queued_.push_back({frame, {body.begin(), body.end()}});
  WriteNext();
}

void Pipe::Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) {
  if (bytes == 0) {
    Arrival arrival;
    arrival.done = std::move(done);
    Arrived(std::move(arrival));
    return;
  }
  const MutexLock lock(mu_);
  pushes_.push_back({transfer, static_cast<const std::byte*>(payload), bytes, 0, std::move(done)});
  WriteNext();
}

void Pipe::CancelPush(uint64_t transfer) {
  const MutexLock lock(mu_);
  std::erase_if(pushes_, [transfer](const PushJob& job) { return job.transfer == transfer; });
}

void Pipe::AddPull(uint64_t transfer, void* target, uint64_t bytes, MoveDone done) {
  if (bytes > 0) {
    streams_.Add(transfer, target, bytes, std::move(done));
    return;
  }
  Arrival arrival;
  arrival.done = std::move(done);
  Arrived(std::move(arrival));
}

bool Pipe::Flushed() const {
  const MutexLock lock(mu_);
  // What only the system has taken is lost if this process ends with input unread. The peer reads
  // all of it, up to the bye, and then ends the stream.
  return said_bye_ ? ended_ : !writing_ && queued_.empty() && pushes_.empty();
}

void Pipe::Arrived(Arrival arrival) {
  const MutexLock lock(mu_);
  arrived_bytes_ += arrival.body.size() + kArrivalOverheadBytes;
  arrivals_.push_back(std::move(arrival));
  if (reactor_ != nullptr) {
    reactor_->Wake();
  }
}

std::deque<Pipe::Arrival> Pipe::TakeArrivals() {
  std::deque<Arrival> taken;
  bool resume = false;
  {
    const MutexLock lock(mu_);
    taken.swap(arrivals_);
    arrived_bytes_ = 0;
    resume = std::exchange(paused_, false) && reactor_ != nullptr;
  }
  if (resume) {
    stream_->Read();
  }
  return taken;
}

bool Pipe::HasArrivals() const {
  const MutexLock lock(mu_);
  return !arrivals_.empty();
}

void Pipe::OnMessage(const grpc::ByteBuffer& message) {
  activity_ += 1;
  const Status status = Receive(message);
  {
    const MutexLock lock(mu_);
    if (!status.ok()) {
      Fail(status);  // and reads no more
      return;
    }
    if (arrived_bytes_ > kMaxArrivedBytes) {
      paused_ = true;
      return;
    }
  }
  stream_->Read();
}

Status Pipe::Receive(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) {
    return InvalidArgument("an unreadable message");
  }
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) {
    pieces.push_back(BytesOf(slice));
  }
  if (sealed_) {
    const std::vector<std::byte> seal = TakeFront(pieces, sizeof(SealCode));
    SealCode given{};
    std::memcpy(given.data(), seal.data(), seal.size());
    LS_ASSIGN_OR_RETURN(const SealCode expected, receive_seal_->Next(pieces));
    if (seal.size() != given.size() || !internal::SameCode(given, expected)) {
      return Unauthenticated("a message that the job's secret does not seal");
    }
  }
  std::vector<std::byte> header = TakeFront(pieces, internal::kMinFrameBytes);
  if (header.size() == internal::kMinFrameBytes) {
    const auto rank = std::min(static_cast<size_t>(header[3]), size_t{Shape::kMaxRank});
    const std::vector<std::byte> dims = TakeFront(pieces, 8 * rank);
    header.insert(header.end(), dims.begin(), dims.end());
  }
  LS_ASSIGN_OR_RETURN(internal::ParsedFrame parsed, internal::ParseFrame(header));
  if (parsed.frame.type == FrameType::kData) {
    MoveDone finished;
    for (const std::span<const std::byte> piece : pieces) {
      if (!piece.empty()) {
        LS_TRY(streams_.OnData(parsed.frame, piece, &finished));
        parsed.frame.value += piece.size();
      }
    }
    if (finished) {
      Arrival arrival;
      arrival.done = std::move(finished);
      Arrived(std::move(arrival));
    }
    return OkStatus();
  }
  Arrival arrival;
  arrival.frame = parsed.frame;
  arrival.body = TakeFront(pieces, message.Length());
  Arrived(std::move(arrival));
  return OkStatus();
}

void Pipe::OnWritten() {
  const MutexLock lock(mu_);
  writing_ = false;
  activity_ += writing_data_ ? 1 : 0;
  WriteNext();
}

void Pipe::OnEnded(const Status& why) {
  const MutexLock lock(mu_);
  Fail(why);
}

void Pipe::Close() {
  bool orderly = false;
  {
    const MutexLock lock(mu_);
    reactor_ = nullptr;
    orderly = said_bye_ && !writing_;
    queued_.clear();
    pushes_.clear();
    arrivals_.clear();
  }
  streams_.Clear();
  stream_->Follow(nullptr);
  if (orderly) {
    stream_->End(OkStatus());
  } else {
    stream_->Cancel();
  }
}

GrpcLink::GrpcLink(internal::Reactor& reactor, internal::LinkSink& sink,
                   std::shared_ptr<Stream> stream, StreamSeals seals, std::string first)
    : reactor_(reactor),
      sink_(sink),
      pipe_(
          std::make_shared<Pipe>(reactor, std::move(stream), std::move(seals), std::move(first))) {}

GrpcLink::~GrpcLink() {
  Close();
}

Status GrpcLink::Start() {
  const std::lock_guard<std::recursive_mutex> lock(reactor_.poll_lock());
  if (!closed_) {
    reactor_.AddPoller(this);
    pipe_->Start();
  }
  return OkStatus();
}

void GrpcLink::SendFrame(const Frame& frame, std::span<const std::byte> body) {
  pipe_->SendFrame(frame, body);
}

void GrpcLink::Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) {
  pipe_->Push(transfer, payload, bytes, std::move(done));
}

bool GrpcLink::CancelPush(uint64_t transfer) {
  pipe_->CancelPush(transfer);
  return true;
}

void GrpcLink::Pull(const Frame& announce, void* target, MoveDone done) {
  pipe_->AddPull(announce.transfer, target, announce.header.bytes, std::move(done));
  Frame pull;
  pull.type = FrameType::kPull;
  pull.transfer = announce.transfer;
  pipe_->SendFrame(pull, {});
}

bool GrpcLink::CancelPull(uint64_t transfer) {
  pipe_->CancelPull(transfer);
  return true;
}

bool GrpcLink::Poll() {
  std::deque<Pipe::Arrival> arrivals = pipe_->TakeArrivals();
  for (Pipe::Arrival& arrival : arrivals) {
    if (closed_) {
      break;
    }
    if (arrival.done) {
      arrival.done(OkStatus());
      continue;
    }
    Status status = arrival.down;
    if (status.ok()) {
      status = sink_.OnFrame(arrival.frame, arrival.body);
    }
    if (!status.ok()) {
      sink_.OnDown(status);
    }
  }
  return !arrivals.empty();
}

bool GrpcLink::PrepareSleep() {
  return !pipe_->HasArrivals();
}

void GrpcLink::Close() {
  // The reactor may be gone when a closed link is destroyed.
  if (closed_.exchange(true)) {
    return;
  }
  const std::lock_guard<std::recursive_mutex> lock(reactor_.poll_lock());
  reactor_.RemovePoller(this);
  pipe_->Close();
}

}  // namespace lockstep::net::grpc_link
