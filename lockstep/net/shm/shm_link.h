// ShmLink: frames and payloads to another process of this host.
//
// Small messages and frames go through the ring. A large payload is read by the receiver straight
// from the sender's memory, one copy in pieces between which small messages pass; where the system
// forbids that, it goes through the ring, copied in on one core and out on the other. The local
// socket stays open: its end tells of the peer's, and it passes the descriptors of regions.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/chunk_streams.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/internal/reactor.h"
#include "lockstep/net/shm/segment.h"

namespace lockstep::net::shm {

using internal::Frame;
using internal::MoveDone;
using Descriptor = lockstep::internal::Descriptor;

// What the greeting agreed on.
struct ShmConnection {
  std::unique_ptr<Segment> segment;
  int send_direction = 0;
  Descriptor socket{-1};
  Descriptor peer_event{-1};  // wakes the peer
  pid_t peer_pid = 0;         // 0 if its memory cannot be read from here
  bool peer_reads = false;    // the peer can read ours
};

class ShmLink : public internal::Link, public internal::Poller {
 public:
  // `regions` finds the regions of this task.
  ShmLink(internal::Reactor& reactor, internal::LinkSink& sink, ShmConnection connection,
          std::function<Result<std::shared_ptr<Region>>(uint64_t)> regions);
  ~ShmLink() override;

  LinkKind kind() const override { return LinkKind::kShm; }

  uint64_t eager_bytes() const override { return 16384; }

  Status Start() override;
  void SendFrame(const Frame& frame, std::span<const std::byte> body) override;
  void Offer(Frame* announce, const void* payload) override;
  void EndOffer(uint64_t transfer) override;
  void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) override;
  bool CancelPush(uint64_t transfer) override;
  void Pull(const Frame& announce, void* target, MoveDone done) override;
  bool CancelPull(uint64_t transfer) override;

  uint64_t activity() const override { return activity_; }

  bool Flushed() const override;
  void Close() override;
  Result<std::shared_ptr<Region>> MapRegion(uint64_t number, const Deadline& deadline) override;

  bool Poll() override;
  bool PrepareSleep() override;
  void Awake() override;

 private:
  struct PushJob {
    uint64_t transfer;
    const std::byte* payload;
    uint64_t bytes;
    uint64_t sent;
    MoveDone done;
  };

  struct PullJob {
    uint64_t transfer;
    uint64_t address;
    std::byte* target;
    uint64_t bytes;
    uint64_t read;
    MoveDone done;
  };

  struct RegionAnswer {
    Status status;
    std::shared_ptr<Region> region;
  };

  bool Receive();
  Status OnRecord(std::span<const std::byte> record);
  bool SendQueued();
  bool ReadPiece();
  void WriteOrQueue(std::span<const std::byte> header, std::span<const std::byte> body)
      LS_REQUIRES(send_mu_);
  size_t FirstQueuedBytes() const LS_REQUIRES(send_mu_);
  void WakePeer();
  void Down(const Status& why);
  void OnSocket();
  void AnswerRegion(uint64_t number);

  internal::Reactor& reactor_;
  internal::LinkSink& sink_;
  ShmConnection connection_;
  const std::function<Result<std::shared_ptr<Region>>(uint64_t)> regions_;
  OfferTable& my_offers_;
  OfferTable& peer_offers_;
  internal::ChunkStreams streams_;
  std::atomic<uint64_t> activity_{0};

  // With the reactor's poll lock:
  RingReader reader_;
  bool down_ = false;
  bool started_ = false;

  mutable Mutex send_mu_;
  RingWriter writer_ LS_GUARDED_BY(send_mu_);
  std::deque<std::vector<std::byte>> queued_ LS_GUARDED_BY(send_mu_);  // records that found no room
  std::deque<PushJob> pushes_ LS_GUARDED_BY(send_mu_);

  Mutex pull_mu_;
  std::deque<PullJob> pulls_ LS_GUARDED_BY(pull_mu_);

  // Answers to MapRegion, by number.
  Mutex region_mu_;
  CondVar region_came_;
  std::map<uint64_t, RegionAnswer> region_answers_ LS_GUARDED_BY(region_mu_);
  bool closed_ LS_GUARDED_BY(region_mu_) = false;
};

}  // namespace lockstep::net::shm
