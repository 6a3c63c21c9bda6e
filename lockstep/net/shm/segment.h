// Segment: the shared memory of one pair of processes: a ring each way, and for each way a table of
// the payloads that the sender offers for direct reading.
//
// An offered payload's slot holds (transfer << 2 | state), free -> offered -> reading -> free. The
// sender may set it free at any time: it has its memory back at once, and the reader, whose last
// step is to free the slot itself, then knows that what it read may be garbage.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/net/region.h"
#include "lockstep/net/shm/ring.h"

namespace lockstep::net::shm {

constexpr size_t kRingBytes = size_t{1} << 20;
constexpr size_t kSlots = 1024;

class OfferTable {
 public:
  // Sender. False if the slot of this transfer is taken: the payload then goes through the ring.
  bool Offer(uint64_t transfer);
  void Revoke(uint64_t transfer);
  void RevokeAll();
  // Reader. False if the offer is gone.
  bool StartReading(uint64_t transfer);
  bool EndReading(uint64_t transfer);

 private:
  enum State : uint64_t { kFree = 0, kOffered = 1, kReading = 2 };

  std::atomic<uint64_t>& Slot(uint64_t transfer) { return slots_[transfer % kSlots]; }

  static uint64_t Value(uint64_t transfer, State state) { return transfer << 2 | state; }

  std::atomic<uint64_t> slots_[kSlots];
};

// The layout of the first pages; the rings' data follows. All zeros at first.
struct SegmentControl {
  RingControl rings[2];
  OfferTable offers[2];
};

class Segment {
 public:
  static Result<std::unique_ptr<Segment>> Create();
  // What a peer passed.
  static Result<std::unique_ptr<Segment>> Map(int fd);

  int fd() const { return region_->fd(); }

  // Direction 0 is from the one who connected to the one who accepted.
  RingControl* ring(int direction) const { return &control()->rings[direction]; }

  const DoubleMapping* data(int direction) const { return data_[direction].get(); }

  OfferTable& offers(int direction) const { return control()->offers[direction]; }

 private:
  SegmentControl* control() const { return static_cast<SegmentControl*>(region_->data()); }

  Status MapRings(int fd);

  std::shared_ptr<Region> region_;
  std::unique_ptr<DoubleMapping> data_[2];
};

}  // namespace lockstep::net::shm
