// UcxLink: frames as active messages; large payloads as data frames of which a few are under way.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/net/internal/chunk_streams.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/ucx/ucx_worker.h"

namespace lockstep::net::ucx {

using internal::Frame;
using internal::MoveDone;

constexpr unsigned kMessageId = 1;
// What a task sends before the peer's link exists would be lost. So an end says its number when it
// is ready, and again when it learns the peer's; frames go out once the peer has repeated it.
constexpr unsigned kGreetingId = 2;
// This end is no more. UCX tells the other one only when the whole process ends.
constexpr unsigned kEndId = 3;

struct LinkTokens {
  std::array<uint8_t, 16> mine;    // what we send
  std::array<uint8_t, 16> theirs;  // what we expect
};

class UcxLink : public internal::Link {
 public:
  // `address` is hostile: UCX is told to parse it.
  static Result<std::unique_ptr<UcxLink>> Create(std::shared_ptr<UcxWorker> worker, PeerId self,
                                                 PeerId peer, const std::string& address,
                                                 const LinkTokens& tokens,
                                                 internal::LinkSink& sink);
  UcxLink(std::shared_ptr<UcxWorker> worker, PeerId self, PeerId peer, const LinkTokens& tokens,
          uint64_t number, internal::LinkSink& sink);
  ~UcxLink() override;

  PeerId peer() const { return peer_; }

  LinkKind kind() const override { return LinkKind::kUcx; }

  uint64_t eager_bytes() const override { return 16384; }

  Status Start() override;
  void Greet();
  void SendFrame(const Frame& frame, std::span<const std::byte> body) override;
  void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) override;
  bool CancelPush(uint64_t transfer) override;
  void Pull(const Frame& announce, void* target, MoveDone done) override;
  bool CancelPull(uint64_t transfer) override;

  uint64_t activity() const override { return activity_; }

  bool Flushed() const override;
  void Close() override;

  // For the worker. With its lock:
  bool greeted() const { return greeted_; }

  void OnGreeting(const Envelope& envelope);
  void OnEnd();
  // Whether a frame is from the other end of this link, and not of a former one.
  bool Expects(const Envelope& envelope) const;
  void OnMessage(std::span<const std::byte> message);
  bool SendQueued();
  bool HasWork() const;
  // Without:
  void Deliver(std::span<const std::byte> frame, const Status& down);

 private:
  struct PushJob {
    uint64_t transfer;
    const std::byte* payload;
    uint64_t bytes;
    uint64_t sent;
    int in_flight;
    bool cancelled;
    MoveDone done;
  };

  // One active message until UCX is done with it.
  struct Message;

  static void OnSent(void* request, ucs_status_t status, void* message);
  static void OnError(void* link, ucp_ep_h endpoint, ucs_status_t status);
  void Post(std::unique_ptr<Message> message, unsigned id = kMessageId);
  void Finished(Message& message, ucs_status_t status);

  std::shared_ptr<UcxWorker> worker_;
  const PeerId self_;
  const PeerId peer_;
  const LinkTokens tokens_;
  const uint64_t number_;
  internal::LinkSink& sink_;
  internal::ChunkStreams streams_;
  ucp_ep_h endpoint_ = nullptr;

  bool SaidByPeer(const Envelope& envelope) const;

  // With the worker's lock:
  uint64_t peer_number_ = 0;
  bool greeted_ = false;
  bool greet_again_ = false;
  bool said_bye_ = false;
  std::deque<std::unique_ptr<Message>> early_;  // for when it is greeted
  std::deque<std::shared_ptr<PushJob>> pushes_;
  std::deque<MoveDone> finished_;
  int in_flight_ = 0;
  bool failed_ = false;
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> activity_{0};
};

}  // namespace lockstep::net::ucx
