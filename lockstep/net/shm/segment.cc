#include "lockstep/net/shm/segment.h"

#include <unistd.h>

#include <type_traits>

namespace lockstep::net::shm {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics are shared between processes");
static_assert(std::is_standard_layout_v<SegmentControl>);

// A multiple of every page size in use, so that both processes agree.
constexpr size_t kControlBytes = size_t{64} << 10;
static_assert(sizeof(SegmentControl) <= kControlBytes);
constexpr size_t kSegmentBytes = kControlBytes + 2 * kRingBytes;

}  // namespace

bool OfferTable::Offer(uint64_t transfer) {
  uint64_t expected = kFree;
  return Slot(transfer).compare_exchange_strong(expected, Value(transfer, kOffered));
}

void OfferTable::Revoke(uint64_t transfer) {
  for (const State state : {kOffered, kReading}) {
    uint64_t expected = Value(transfer, state);
    if (Slot(transfer).compare_exchange_strong(expected, kFree)) {
      return;
    }
  }
  // Between the two looks the reader may have begun.
  uint64_t expected = Value(transfer, kReading);
  Slot(transfer).compare_exchange_strong(expected, kFree);
}

void OfferTable::RevokeAll() {
  for (std::atomic<uint64_t>& slot : slots_) {
    slot.store(kFree);
  }
}

bool OfferTable::StartReading(uint64_t transfer) {
  uint64_t expected = Value(transfer, kOffered);
  return Slot(transfer).compare_exchange_strong(expected, Value(transfer, kReading));
}

bool OfferTable::EndReading(uint64_t transfer) {
  uint64_t expected = Value(transfer, kReading);
  return Slot(transfer).compare_exchange_strong(expected, kFree);
}

Result<std::unique_ptr<Segment>> Segment::Create() {
  auto segment = std::make_unique<Segment>();
  LS_ASSIGN_OR_RETURN(segment->region_, Region::Create(0, kSegmentBytes));
  LS_TRY(segment->MapRings(segment->region_->fd()));
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::Map(int fd) {
  auto segment = std::make_unique<Segment>();
  LS_ASSIGN_OR_RETURN(segment->region_, Region::Map(fd, 0, kSegmentBytes));
  LS_TRY(segment->MapRings(fd));
  return segment;
}

Status Segment::MapRings(int fd) {
  for (size_t direction = 0; direction < 2; ++direction) {
    LS_ASSIGN_OR_RETURN(
        data_[direction],
        DoubleMapping::Create(fd, kControlBytes + direction * kRingBytes, kRingBytes));
  }
  return OkStatus();
}

}  // namespace lockstep::net::shm
