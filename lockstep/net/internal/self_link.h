// SelfLink: a task's messages to itself: one copy, by whichever thread makes progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/internal/reactor.h"

namespace lockstep::net::internal {

class SelfLink : public Link, public Poller {
 public:
  SelfLink(Reactor& reactor, LinkSink& sink) : reactor_(reactor), sink_(sink) {}

  LinkKind kind() const override { return LinkKind::kSelf; }

  uint64_t eager_bytes() const override { return 8192; }

  Status Start() override;
  void SendFrame(const Frame& frame, std::span<const std::byte> body) override;
  void Offer(Frame* announce, const void* payload) override;
  void EndOffer(uint64_t transfer) override;
  void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) override;

  bool CancelPush(uint64_t) override { return true; }

  void Pull(const Frame& announce, void* target, MoveDone done) override;
  bool CancelPull(uint64_t transfer) override;

  uint64_t activity() const override { return 0; }  // a task does not watch itself

  bool Flushed() const override { return true; }

  void Close() override;

  bool Poll() override;
  bool PrepareSleep() override;

  void Awake() override {}

 private:
  struct Job {
    Frame frame;
    std::vector<std::byte> body;
    // Of a pull:
    void* target = nullptr;
    MoveDone done;
  };

  Reactor& reactor_;
  LinkSink& sink_;
  mutable Mutex mu_;
  std::deque<Job> jobs_ LS_GUARDED_BY(mu_);
  std::map<uint64_t, const void*> offers_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::net::internal
