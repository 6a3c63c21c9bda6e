// ChunkStreams: payloads on their way in pieces, for links that send kData frames. One per link;
// the pieces of a transfer arrive in order. Thread-safe: a target is not touched after Remove
// returned.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/link.h"

namespace lockstep::net::internal {

class ChunkStreams {
 public:
  void Add(uint64_t transfer, void* target, uint64_t bytes, MoveDone done);
  // Copies a piece. When it was the last one, moves the callback to `finished`: the caller calls it
  // without locks. Pieces of unknown transfers are what was under way when it was cancelled.
  // Errors: InvalidArgument for a piece that does not continue its transfer.
  Status OnData(const Frame& frame, std::span<const std::byte> piece, MoveDone* finished);
  void Remove(uint64_t transfer);
  void Clear();

 private:
  struct Incoming {
    std::byte* target;
    uint64_t bytes;
    uint64_t received;
    MoveDone done;
  };

  Mutex mu_;
  std::unordered_map<uint64_t, Incoming> incoming_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::net::internal
