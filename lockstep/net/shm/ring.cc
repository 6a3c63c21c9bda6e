#include "lockstep/net/shm/ring.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace lockstep::net::shm {
namespace {

constexpr size_t kPrefixBytes = 8;

// Records begin at multiples of eight.
size_t RecordBytes(size_t payload) {
  return kPrefixBytes + ((payload + 7) & ~size_t{7});
}

}  // namespace

Result<std::unique_ptr<DoubleMapping>> DoubleMapping::Create(int fd, size_t offset, size_t bytes) {
  void* base = mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return ResourceExhausted(fmt::format("address space for a ring: {}", std::strerror(errno)));
  }
  auto mapping = std::make_unique<DoubleMapping>(static_cast<std::byte*>(base), bytes);
  for (size_t half = 0; half < 2; ++half) {
    void* at = mapping->data() + half * bytes;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      return ResourceExhausted(fmt::format("mapping a ring: {}", std::strerror(errno)));
    }
  }
  return mapping;
}

DoubleMapping::~DoubleMapping() {
  munmap(data_, 2 * bytes_);
}

bool RingWriter::HasRoom(size_t bytes) {
  const size_t needed = RecordBytes(bytes);
  if (needed > data_->bytes()) {
    return false;
  }
  if (tail_ - head_ + needed <= data_->bytes()) {
    return true;
  }
  const uint64_t head = control_->head.load(std::memory_order_seq_cst);
  // A position that makes no sense gives no room; the reader's death ends the link.
  if (head < head_ || head > tail_) {
    return false;
  }
  head_ = head;
  return tail_ - head_ + needed <= data_->bytes();
}

bool RingWriter::Write(std::span<const std::byte> first, std::span<const std::byte> second) {
  const size_t payload = first.size() + second.size();
  if (!HasRoom(payload)) {
    return false;
  }
  std::byte* at = data_->data() + tail_ % data_->bytes();
  const uint64_t prefix = payload;
  std::memcpy(at, &prefix, sizeof(prefix));
  std::memcpy(at + kPrefixBytes, first.data(), first.size());
  if (!second.empty()) {
    std::memcpy(at + kPrefixBytes + first.size(), second.data(), second.size());
  }
  tail_ += RecordBytes(payload);
  control_->tail.store(tail_, std::memory_order_seq_cst);
  return true;
}

bool RingWriter::TakeReaderSleep() {
  return control_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
         control_->reader_sleeps.exchange(0) != 0;
}

bool RingWriter::PrepareWait(size_t bytes) {
  control_->writer_waits.store(1, std::memory_order_seq_cst);
  return !HasRoom(bytes);
}

Result<std::span<const std::byte>> RingReader::Front() {
  const uint64_t tail = control_->tail.load(std::memory_order_acquire);
  if (tail == head_) {
    return std::span<const std::byte>();
  }
  const uint64_t available = tail - head_;
  const std::byte* at = data_->data() + head_ % data_->bytes();
  uint64_t payload = 0;
  std::memcpy(&payload, at, sizeof(payload));
  if (available > data_->bytes() || payload == 0 || payload > data_->bytes() ||
      RecordBytes(payload) > available) {
    return InvalidArgument(fmt::format("a record of {} bytes where {} are in a ring of {}", payload,
                                       available, data_->bytes()));
  }
  front_bytes_ = RecordBytes(payload);
  return std::span<const std::byte>(at + kPrefixBytes, payload);
}

void RingReader::Pop() {
  head_ += front_bytes_;
  control_->head.store(head_, std::memory_order_seq_cst);
}

bool RingReader::TakeWriterWait() {
  return control_->writer_waits.load(std::memory_order_seq_cst) != 0 &&
         control_->writer_waits.exchange(0) != 0;
}

bool RingReader::PrepareSleep() {
  control_->reader_sleeps.store(1, std::memory_order_seq_cst);
  if (control_->tail.load(std::memory_order_seq_cst) == head_) {
    return true;
  }
  control_->reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace lockstep::net::shm
