// Link: moves frames and payloads to one peer. The engine above it decides what belongs together;
// links only move bytes, so that every kind behaves alike.
//
// Rules. The engine calls a Link with its own lock held, so a Link must not call its sink or a
// callback from inside these methods, only from its progress (Poll, a thread of its own), where it
// holds none of its locks. Frames of one link arrive in order. Methods never block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/net/internal/frame.h"
#include "lockstep/net/link_kind.h"
#include "lockstep/net/region.h"

namespace lockstep::net::internal {

// Where a link delivers. Calls for one link come one at a time and in order.
class LinkSink {
 public:
  virtual ~LinkSink() = default;

  // An error is a breach of the protocol: the link ends with it.
  virtual Status OnFrame(const Frame& frame, std::span<const std::byte> body) = 0;
  // The peer is lost, or left; everything pending with it fails. Later calls do nothing.
  virtual void OnDown(Status why) = 0;
};

using MoveDone = std::function<void(const Status&)>;

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkKind kind() const = 0;
  // Payloads up to this size travel with their header.
  virtual uint64_t eager_bytes() const = 0;

  // From now on the sink is called. Does nothing where Close, from another thread, came first.
  virtual Status Start() = 0;
  // Sends a frame; `body` is copied.
  virtual void SendFrame(const Frame& frame, std::span<const std::byte> body) = 0;

  // Sender: the payload of `announce->transfer` is ready to be fetched. May fill `announce->value`
  // with where it is, if the receiver can fetch it by itself.
  virtual void Offer(Frame* announce, const void* payload) {
    static_cast<void>(announce);
    static_cast<void>(payload);
  }

  // Sender: the offer ends before kPull came.
  virtual void EndOffer(uint64_t transfer) { static_cast<void>(transfer); }

  // Sender: kPull came. `done` is called when the payload is no longer needed.
  virtual void Push(uint64_t transfer, const void* payload, uint64_t bytes, MoveDone done) = 0;
  // False if the payload is still being read: then `done` comes later. True if `done` is dropped.
  virtual bool CancelPush(uint64_t transfer) = 0;

  // Receiver: fetches an announced payload into `target`.
  virtual void Pull(const Frame& announce, void* target, MoveDone done) = 0;
  // As CancelPush; after true `target` is not touched any more.
  virtual bool CancelPull(uint64_t transfer) = 0;

  // Grows with every frame that came, and with every piece of a payload that went: a peer of whom
  // it stands still while something is pending may be dead.
  virtual uint64_t activity() const = 0;
  // Has everything been handed over to what survives this process?
  virtual bool Flushed() const = 0;
  // Ends the link. `done` of every push and pull has been called, or is dropped, when it returns:
  // no memory of the user is touched any more.
  virtual void Close() = 0;

  // Maps the region of the peer that has this number.
  virtual Result<std::shared_ptr<Region>> MapRegion(uint64_t number, const Deadline& deadline) {
    static_cast<void>(number);
    static_cast<void>(deadline);
    return Unimplemented("regions are shared between processes of one host only");
  }
};

}  // namespace lockstep::net::internal
