#include "lockstep/net/shm/shm_link.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/net/shm/socket.h"

namespace lockstep::net::shm {
namespace {

using internal::FrameBytes;
using internal::FrameType;

// Of a payload that goes through the ring: large enough to be cheap, small enough that both sides
// work at once.
constexpr uint64_t kChunkBytes = uint64_t{64} << 10;
// Of a payload that is read directly: small messages wait no longer than one piece takes.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr int kRecordsPerPoll = 32;

// On the socket, after the greeting.
struct RegionPacket {
  uint32_t magic;
  uint32_t code;  // of an answer: a status code
  uint64_t number;
  uint64_t bytes;
  uint32_t answer;
  uint32_t zero;
};

constexpr uint32_t kRegionMagic = 0x4C535247;

}  // namespace

ShmLink::ShmLink(internal::Reactor& reactor, internal::LinkSink& sink, ShmConnection connection,
                 std::function<Result<std::shared_ptr<Region>>(uint64_t)> regions)
    : reactor_(reactor),
      sink_(sink),
      connection_(std::move(connection)),
      regions_(std::move(regions)),
      my_offers_(connection_.segment->offers(connection_.send_direction)),
      peer_offers_(connection_.segment->offers(1 - connection_.send_direction)),
      reader_(connection_.segment->ring(1 - connection_.send_direction),
              connection_.segment->data(1 - connection_.send_direction)),
      writer_(connection_.segment->ring(connection_.send_direction),
              connection_.segment->data(connection_.send_direction)) {}

ShmLink::~ShmLink() = default;

Status ShmLink::Start() {
  const std::lock_guard<std::recursive_mutex> lock(reactor_.poll_lock());
  if (down_) {
    return OkStatus();
  }
  LS_TRY(reactor_.AddDescriptor(connection_.socket.get(), [this] { OnSocket(); }));
  reactor_.AddPoller(this);
  started_ = true;
  return OkStatus();
}

void ShmLink::WakePeer() {
  const uint64_t one = 1;
  static_cast<void>(!write(connection_.peer_event.get(), &one, sizeof(one)));
}

void ShmLink::WriteOrQueue(std::span<const std::byte> header, std::span<const std::byte> body) {
  if (!queued_.empty() || !writer_.Write(header, body)) {
    std::vector<std::byte> record(header.begin(), header.end());
    record.insert(record.end(), body.begin(), body.end());
    queued_.push_back(std::move(record));
  }
}

void ShmLink::SendFrame(const Frame& frame, std::span<const std::byte> body) {
  FrameBytes header;
  const size_t header_bytes = internal::EncodeFrame(frame, header);
  bool queued = false;
  bool wake = false;
  {
    MutexLock lock(send_mu_);
    WriteOrQueue(std::span(header).first(header_bytes), body);
    queued = !queued_.empty();
    wake = writer_.TakeReaderSleep();
  }
  if (wake) {
    WakePeer();
  }
  if (queued) {
    reactor_.Wake();
  }
}

void ShmLink::Offer(Frame* announce, const void* payload) {
  if (connection_.peer_reads && announce->header.bytes > 0 &&
      my_offers_.Offer(announce->transfer)) {
    announce->value = reinterpret_cast<uint64_t>(payload);
  }
}

void ShmLink::EndOffer(uint64_t transfer) {
  my_offers_.Revoke(transfer);
}

void ShmLink::Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) {
  {
    MutexLock lock(send_mu_);
    pushes_.push_back(
        {transfer, static_cast<const std::byte*>(payload), bytes, 0, std::move(done)});
  }
  reactor_.Wake();
}

bool ShmLink::CancelPush(uint64_t transfer) {
  MutexLock lock(send_mu_);
  std::erase_if(pushes_, [transfer](const PushJob& job) { return job.transfer == transfer; });
  return true;
}

void ShmLink::Pull(const Frame& announce, void* target, MoveDone done) {
  const uint64_t bytes = announce.header.bytes;
  auto* out = static_cast<std::byte*>(target);
  if (bytes > 0 && (announce.value == 0 || connection_.peer_pid == 0)) {
    streams_.Add(announce.transfer, target, bytes, std::move(done));
    Frame pull;
    pull.type = FrameType::kPull;
    pull.transfer = announce.transfer;
    SendFrame(pull, {});
    return;
  }
  {
    MutexLock lock(pull_mu_);
    pulls_.push_back({announce.transfer, announce.value, out, bytes, 0, std::move(done)});
  }
  reactor_.Wake();
}

bool ShmLink::CancelPull(uint64_t transfer) {
  streams_.Remove(transfer);
  MutexLock lock(pull_mu_);
  std::erase_if(pulls_, [transfer](const PullJob& job) { return job.transfer == transfer; });
  return true;
}

bool ShmLink::Flushed() const {
  MutexLock lock(send_mu_);
  return queued_.empty() && pushes_.empty();
}

Status ShmLink::OnRecord(std::span<const std::byte> record) {
  LS_ASSIGN_OR_RETURN(const internal::ParsedFrame parsed, internal::ParseFrame(record));
  const std::span<const std::byte> body = record.subspan(parsed.header_bytes);
  if (parsed.frame.type != FrameType::kData) {
    return sink_.OnFrame(parsed.frame, body);
  }
  MoveDone finished;
  LS_TRY(streams_.OnData(parsed.frame, body, &finished));
  if (finished) {
    finished(OkStatus());
  }
  return OkStatus();
}

bool ShmLink::Receive() {
  int count = 0;
  for (; count < kRecordsPerPoll && !down_; ++count) {
    const Result<std::span<const std::byte>> record = reader_.Front();
    if (!record.ok()) {
      Down(record.status());
      return true;
    }
    if (record->empty()) {
      break;
    }
    const Status status = OnRecord(*record);
    reader_.Pop();
    if (!status.ok()) {
      Down(status);
      return true;
    }
  }
  activity_ += static_cast<uint64_t>(count);
  if (count > 0 && reader_.TakeWriterWait()) {
    WakePeer();
  }
  return count > 0;
}

size_t ShmLink::FirstQueuedBytes() const {
  if (!queued_.empty()) {
    return queued_.front().size();
  }
  if (!pushes_.empty()) {
    const PushJob& job = pushes_.front();
    return internal::kMinFrameBytes + std::min(kChunkBytes, job.bytes - job.sent);
  }
  return 0;
}

bool ShmLink::SendQueued() {
  MoveDone finished;
  bool worked = false;
  bool wake = false;
  {
    MutexLock lock(send_mu_);
    while (!queued_.empty() && writer_.Write(queued_.front(), {})) {
      queued_.pop_front();
      worked = true;
    }
    if (queued_.empty() && !pushes_.empty()) {
      PushJob& job = pushes_.front();
      Frame frame;
      frame.type = FrameType::kData;
      frame.transfer = job.transfer;
      frame.value = job.sent;
      FrameBytes header;
      const size_t header_bytes = internal::EncodeFrame(frame, header);
      const uint64_t chunk = std::min(kChunkBytes, job.bytes - job.sent);
      if (chunk == 0 ||
          writer_.Write(std::span(header).first(header_bytes), {job.payload + job.sent, chunk})) {
        worked = true;
        activity_ += 1;
        job.sent += chunk;
        if (job.sent == job.bytes) {
          finished = std::move(job.done);
          pushes_.pop_front();
        } else if (pushes_.size() > 1) {
          // Payloads take turns.
          pushes_.push_back(std::move(job));
          pushes_.pop_front();
        }
      }
    }
    wake = worked && writer_.TakeReaderSleep();
  }
  if (wake) {
    WakePeer();
  }
  if (finished) {
    finished(OkStatus());
  }
  return worked;
}

bool ShmLink::ReadPiece() {
  MoveDone finished;
  Status status;
  uint64_t transfer = 0;
  {
    // Held while copying, so that a buffer is not touched after its operation ended.
    MutexLock lock(pull_mu_);
    if (pulls_.empty()) {
      return false;
    }
    PullJob& job = pulls_.front();
    transfer = job.transfer;
    if (job.read == 0 && job.bytes > 0 && !peer_offers_.StartReading(job.transfer)) {
      status = Aborted("it is no longer offered");
    }
    const uint64_t piece = std::min(kPieceBytes, job.bytes - job.read);
    if (status.ok() && piece > 0) {
      const iovec local{job.target + job.read, piece};
      const iovec remote{reinterpret_cast<void*>(job.address + job.read), piece};
      const ssize_t read = process_vm_readv(connection_.peer_pid, &local, 1, &remote, 1, 0);
      if (read < 0) {
        status = errno == ESRCH
                     ? Unavailable("its process has ended")
                     : Internal(fmt::format("reading its memory: {}", std::strerror(errno)));
      } else {
        job.read += static_cast<uint64_t>(read);
      }
    }
    if (status.ok() && job.read < job.bytes) {
      if (pulls_.size() > 1) {
        pulls_.push_back(std::move(job));
        pulls_.pop_front();
      }
      return true;
    }
    if (status.ok() && job.bytes > 0 && !peer_offers_.EndReading(job.transfer)) {
      status = Aborted("it was withdrawn while it was read");
    }
    finished = std::move(job.done);
    pulls_.pop_front();
  }
  if (status.ok()) {
    Frame fetched;
    fetched.type = FrameType::kDone;
    fetched.transfer = transfer;
    SendFrame(fetched, {});
  }
  finished(status);
  return true;
}

bool ShmLink::Poll() {
  if (down_) {
    return false;
  }
  const bool received = Receive();
  const bool sent = !down_ && SendQueued();
  const bool read = !down_ && ReadPiece();
  return received || sent || read;
}

bool ShmLink::PrepareSleep() {
  if (down_) {
    return true;
  }
  {
    MutexLock lock(pull_mu_);
    if (!pulls_.empty()) {
      return false;
    }
  }
  {
    MutexLock lock(send_mu_);
    const size_t bytes = FirstQueuedBytes();
    if (bytes > 0 && !writer_.PrepareWait(bytes)) {
      return false;
    }
  }
  return reader_.PrepareSleep();
}

void ShmLink::Awake() {
  reader_.Awake();
}

void ShmLink::Down(const Status& why) {
  if (!down_) {
    down_ = true;
    sink_.OnDown(why);
  }
}

void ShmLink::OnSocket() {
  const Result<Packet> packet = ReceivePacket(connection_.socket.get(), Deadline::Infinite());
  if (!packet.ok() || packet->bytes.empty()) {
    // What it sent before it ended is in the ring.
    while (Receive()) {
    }
    Down(packet.ok() ? Unavailable("its process has ended") : packet.status());
    return;
  }
  RegionPacket message{};
  if (packet->bytes.size() != sizeof(message)) {
    Down(InvalidArgument(
        fmt::format("a packet of {} bytes on the local socket", packet->bytes.size())));
    return;
  }
  std::memcpy(&message, packet->bytes.data(), sizeof(message));
  if (message.magic != kRegionMagic || message.answer > 1 || message.code > 16) {
    Down(InvalidArgument("an unknown packet on the local socket"));
    return;
  }
  if (message.answer == 0) {
    AnswerRegion(message.number);
    return;
  }
  RegionAnswer answer;
  if (message.code == 0 && packet->fds.size() == 1) {
    Result<std::shared_ptr<Region>> region =
        Region::Map(packet->fds[0].get(), message.number, message.bytes);
    answer.status = region.status();
    if (region.ok()) {
      answer.region = std::move(region).value();
    }
  } else {
    answer.status =
        Status(message.code == 0 ? StatusCode::kInternal : static_cast<StatusCode>(message.code),
               "its owner does not have it");
  }
  MutexLock lock(region_mu_);
  region_answers_.insert_or_assign(message.number, std::move(answer));
  region_came_.NotifyAll();
}

void ShmLink::AnswerRegion(uint64_t number) {
  const Result<std::shared_ptr<Region>> region = regions_(number);
  RegionPacket answer{};
  answer.magic = kRegionMagic;
  answer.number = number;
  answer.answer = 1;
  answer.code = static_cast<uint32_t>(region.status().code());
  std::vector<int> fds;
  if (region.ok()) {
    answer.bytes = (*region)->bytes();
    fds.push_back((*region)->fd());
  }
  const Status sent = SendPacket(connection_.socket.get(), BytesOf(answer), fds);
  if (!sent.ok()) {
    Down(sent);
  }
}

Result<std::shared_ptr<Region>> ShmLink::MapRegion(uint64_t number, const Deadline& deadline) {
  RegionPacket request{};
  request.magic = kRegionMagic;
  request.number = number;
  LS_TRY(SendPacket(connection_.socket.get(), BytesOf(request), {}));
  MutexLock lock(region_mu_);
  while (true) {
    const auto found = region_answers_.find(number);
    if (found != region_answers_.end()) {
      const RegionAnswer answer = std::move(found->second);
      region_answers_.erase(found);
      LS_TRY(answer.status);
      return answer.region;
    }
    if (closed_) {
      return Unavailable("its owner is lost");
    }
    if (!region_came_.WaitUntil(region_mu_, deadline)) {
      return DeadlineExceeded("its owner did not answer");
    }
  }
}

void ShmLink::Close() {
  {
    const std::lock_guard<std::recursive_mutex> lock(reactor_.poll_lock());
    if (started_) {
      reactor_.RemoveDescriptor(connection_.socket.get());
      reactor_.RemovePoller(this);
    }
    down_ = true;
  }
  // Seen by the peer. Closed by the destructor: MapRegion may be using it.
  shutdown(connection_.socket.get(), SHUT_RDWR);
  my_offers_.RevokeAll();
  streams_.Clear();
  {
    MutexLock lock(pull_mu_);
    pulls_.clear();
  }
  {
    MutexLock lock(send_mu_);
    pushes_.clear();
    queued_.clear();
  }
  MutexLock lock(region_mu_);
  closed_ = true;
  region_came_.NotifyAll();
}

}  // namespace lockstep::net::shm
