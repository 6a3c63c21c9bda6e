#include "lockstep/net/internal/chunk_streams.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace lockstep::net::internal {

void ChunkStreams::Add(uint64_t transfer, void* target, uint64_t bytes, MoveDone done) {
  MutexLock lock(mu_);
  incoming_[transfer] = {static_cast<std::byte*>(target), bytes, 0, std::move(done)};
}

Status ChunkStreams::OnData(const Frame& frame, std::span<const std::byte> piece,
                            MoveDone* finished) {
  MutexLock lock(mu_);
  const auto found = incoming_.find(frame.transfer);
  if (found == incoming_.end()) {
    return OkStatus();
  }
  Incoming& in = found->second;
  if (piece.empty() || frame.value != in.received || piece.size() > in.bytes - in.received) {
    return InvalidArgument(
        fmt::format("{} bytes at {} of transfer {}, which has {} bytes of which {} came",
                    piece.size(), frame.value, frame.transfer, in.bytes, in.received));
  }
  std::memcpy(in.target + in.received, piece.data(), piece.size());
  in.received += piece.size();
  if (in.received == in.bytes) {
    *finished = std::move(in.done);
    incoming_.erase(found);
  }
  return OkStatus();
}

void ChunkStreams::Remove(uint64_t transfer) {
  MutexLock lock(mu_);
  incoming_.erase(transfer);
}

void ChunkStreams::Clear() {
  MutexLock lock(mu_);
  incoming_.clear();
}

}  // namespace lockstep::net::internal
