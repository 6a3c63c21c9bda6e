// GrpcLink: frames and payloads over one stream of gRPC. What came is taken on gRPC's threads: data
// goes straight into its buffer, everything else is handed on by the reactor's Poll, as on other
// links. Without TLS every message carries a seal (seal.h).
//
// A payload goes in pieces that are copied into gRPC's memory: gRPC may keep a message for as long
// as a connection lasts whose other end has stopped, and the user's memory must be free before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/grpc/grpc_stream.h"
#include "lockstep/net/internal/chunk_streams.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/internal/reactor.h"
#include "lockstep/net/internal/seal.h"

namespace lockstep::net::grpc_link {

using internal::Frame;
using internal::MoveDone;

// Seals of the two directions; none where TLS does their work.
struct StreamSeals {
  std::optional<internal::Seal> send;
  std::optional<internal::Seal> receive;
};

// The stream's end of a link; gRPC may still hold it when the link is gone.
class Pipe : public StreamEvents, public std::enable_shared_from_this<Pipe> {
 public:
  // What came, to be handed on.
  struct Arrival {
    Frame frame;
    std::vector<std::byte> body;
    MoveDone done;  // of a push or a pull; then there is no frame
    Status down;
  };

  // `first` is written before anything else, without a seal; may be empty.
  Pipe(internal::Reactor& reactor, std::shared_ptr<Stream> stream, StreamSeals seals,
       std::string first);

  void Start();
  void SendFrame(const Frame& frame, std::span<const std::byte> body);
  void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done);
  void CancelPush(uint64_t transfer);
  void AddPull(uint64_t transfer, void* target, uint64_t bytes, MoveDone done);

  void CancelPull(uint64_t transfer) { streams_.Remove(transfer); }

  bool Flushed() const;

  uint64_t activity() const { return activity_; }

  std::deque<Arrival> TakeArrivals();
  bool HasArrivals() const;
  void Close();

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnWritten() override;
  void OnEnded(const Status& why) override;

 private:
  struct PushJob {
    uint64_t transfer;
    const std::byte* payload;
    uint64_t bytes;
    uint64_t sent;
    MoveDone done;
  };

  Status Receive(const grpc::ByteBuffer& message);
  void Arrived(Arrival arrival);
  void WriteNext() LS_REQUIRES(mu_);
  // A message with room for `body`, which is copied.
  Result<grpc::ByteBuffer> MakeMessage(const Frame& frame, std::span<const std::byte> body)
      LS_REQUIRES(mu_);
  void Fail(const Status& why) LS_REQUIRES(mu_);

  const std::shared_ptr<Stream> stream_;
  const bool sealed_;
  internal::ChunkStreams streams_;
  std::atomic<uint64_t> activity_{0};
  // By reading only:
  std::optional<internal::Seal> receive_seal_;

  mutable Mutex mu_;
  internal::Reactor* reactor_ LS_GUARDED_BY(mu_);  // null once closed
  std::optional<internal::Seal> send_seal_ LS_GUARDED_BY(mu_);
  std::deque<Arrival> arrivals_ LS_GUARDED_BY(mu_);
  size_t arrived_bytes_ LS_GUARDED_BY(mu_) = 0;
  bool paused_ LS_GUARDED_BY(mu_) = false;  // no Read is under way
  const std::string first_;
  bool writing_ LS_GUARDED_BY(mu_) = true;  // until it is started, too
  bool writing_data_ LS_GUARDED_BY(mu_) = false;
  bool said_bye_ LS_GUARDED_BY(mu_) = false;
  bool ended_ LS_GUARDED_BY(mu_) = false;

  struct Queued {
    Frame frame;
    std::vector<std::byte> body;
  };

  std::deque<Queued> queued_ LS_GUARDED_BY(mu_);
  std::deque<PushJob> pushes_ LS_GUARDED_BY(mu_);
};

class GrpcLink : public internal::Link, public internal::Poller {
 public:
  GrpcLink(internal::Reactor& reactor, internal::LinkSink& sink, std::shared_ptr<Stream> stream,
           StreamSeals seals, std::string first);
  ~GrpcLink() override;

  LinkKind kind() const override { return LinkKind::kGrpc; }

  uint64_t eager_bytes() const override { return 16384; }

  Status Start() override;
  void SendFrame(const Frame& frame, std::span<const std::byte> body) override;
  void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) override;
  bool CancelPush(uint64_t transfer) override;
  void Pull(const Frame& announce, void* target, MoveDone done) override;
  bool CancelPull(uint64_t transfer) override;

  uint64_t activity() const override { return pipe_->activity(); }

  bool Flushed() const override { return pipe_->Flushed(); }

  void Close() override;

  bool Poll() override;
  bool PrepareSleep() override;

  void Awake() override {}

 private:
  internal::Reactor& reactor_;
  internal::LinkSink& sink_;
  const std::shared_ptr<Pipe> pipe_;
  std::atomic<bool> closed_{false};
};

}  // namespace lockstep::net::grpc_link
