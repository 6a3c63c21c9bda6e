// Ring: a lock-free queue of records in shared memory, from one process to another. The data area
// is mapped twice in a row, so that every record is contiguous. Positions only grow; each side
// writes its own. What the other side writes is checked before it is used.
//
// Sleeping: who is about to sleep sets its flag, then looks once more; who changes a position looks
// at the other's flag afterwards, and if it is set clears it and wakes the other by a descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/base/result.h"

namespace lockstep::net::shm {

// In shared memory; all zeros at first.
struct RingControl {
  alignas(64) std::atomic<uint64_t> tail;  // the writer's
  alignas(64) std::atomic<uint64_t> head;  // the reader's
  alignas(64) std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint32_t> writer_waits;
};

// Maps `bytes` of `fd` from `offset` twice in a row; both are multiples of the page size.
class DoubleMapping {
 public:
  static Result<std::unique_ptr<DoubleMapping>> Create(int fd, size_t offset, size_t bytes);

  explicit DoubleMapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  DoubleMapping(const DoubleMapping&) = delete;
  DoubleMapping& operator=(const DoubleMapping&) = delete;
  ~DoubleMapping();

  std::byte* data() const { return data_; }

  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

// The writer's end. One thread at a time.
class RingWriter {
 public:
  RingWriter(RingControl* control, const DoubleMapping* data)
      : control_(control), data_(data), tail_(control->tail.load()) {}

  // False if there is no room for a record of both parts; a record that is larger than the ring
  // never has.
  bool Write(std::span<const std::byte> first, std::span<const std::byte> second);
  bool HasRoom(size_t bytes);
  // True if the reader sleeps: wake it.
  bool TakeReaderSleep();
  // Before sleeping without room for `bytes`. False if there is room now.
  bool PrepareWait(size_t bytes);

 private:
  RingControl* control_;
  const DoubleMapping* data_;
  uint64_t tail_;
  uint64_t head_ = 0;  // as last seen
};

// The reader's end. One thread at a time.
class RingReader {
 public:
  RingReader(RingControl* control, const DoubleMapping* data)
      : control_(control), data_(data), head_(control->head.load()) {}

  // The next record, which stays until Pop; empty if there is none. Errors: InvalidArgument when
  // what the writer wrote is no record.
  Result<std::span<const std::byte>> Front();
  void Pop();
  // True if the writer waits for room: wake it.
  bool TakeWriterWait();
  // False if there is a record.
  bool PrepareSleep();

  void Awake() { control_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingControl* control_;
  const DoubleMapping* data_;
  uint64_t head_;
  size_t front_bytes_ = 0;
};

}  // namespace lockstep::net::shm
