// What a master and a worker send each other over their data link for each run: a request, and a
// reply. Small feeds and fetches lie in these messages; each larger one is a message of its own,
// which goes from tensor to tensor and says itself what it is. What comes is hostile: sizes are
// checked before memory is taken. docs/protocol.md has the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/worker/worker.h"
#include "lockstep/net/message.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::cluster::internal {

// No graph has this scope.
inline constexpr uint64_t kRunScope = 0;
// All requests have one key: they are received in the order in which they were sent.
inline constexpr net::MessageKey kRequestKey{.scope = kRunScope, .step = 0, .item = 0};
inline constexpr uint64_t kMaxRunMessageBytes = uint64_t{16} << 20;

inline net::MessageKey ReplyKey(uint64_t run) {
  return {.scope = kRunScope, .step = run, .item = 0};
}

inline net::MessageKey FetchKey(uint64_t run, size_t fetch) {
  return {.scope = kRunScope, .step = run, .item = 1 + fetch};
}

inline net::MessageKey FeedKey(uint64_t run, size_t feed) {
  return {.scope = kRunScope, .step = run, .item = (uint64_t{1} << 32) + feed};
}

// The header of an encoded message.
net::MessageHeader HeaderOfBytes(uint64_t bytes);

// Positions of the tensors that do not lie in the message.
using Separate = std::vector<size_t>;

struct RunRequest {
  // Chosen by the master; no other run of any master has it.
  uint64_t run = 0;
  WorkerRun what;
  // Those that come separately hold nothing yet.
  std::vector<Tensor> feeds;
  Separate separate;
};

struct RunReply {
  Status status;
  std::vector<Tensor> fetches;
  Separate separate;
};

// INVALID_ARGUMENT for a tensor that holds nothing.
Result<std::string> EncodeRunRequest(uint64_t run, const WorkerRun& what,
                                     std::span<const Tensor> feeds, Separate& separate);
Result<RunRequest> ParseRunRequest(std::string_view bytes);

Result<std::string> EncodeRunReply(const Result<std::vector<Tensor>>& fetches, Separate& separate);
Result<RunReply> ParseRunReply(std::string_view bytes);

}  // namespace lockstep::cluster::internal
