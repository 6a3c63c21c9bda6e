// What a message is: a key that both ends know, a small header, and a payload. Keys are binary and
// of fixed size, so that the data path handles no strings.
//
//   const MessageKey key{.scope = graph, .step = step, .item = transfer};
//   const MessageHeader header = HeaderOf(tensor);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::net {

// A task of the transport, 0..n-1, sorted by job name, then index.
using PeerId = int32_t;

struct MessageKey {
  uint64_t scope = 0;  // a registered graph or a process group
  uint64_t step = 0;   // the step, or the number of the call in the group
  uint64_t item = 0;   // the transfer inside the step

  friend bool operator==(const MessageKey& a, const MessageKey& b) = default;

  // "item 3 of step 12 in scope 7".
  std::string ToString() const;
};

// Travels before the payload. `dtype` and `shape` describe the tensor to the receiver; how many
// bytes the payload has is said apart, because it may be encoded.
struct MessageHeader {
  DType dtype = DType::kUInt8;
  Shape shape;
  uint64_t bytes = 0;
  uint64_t tag = 0;  // the sender's, for whoever checks that both ends mean the same
};

// The header of a tensor that travels as it is.
MessageHeader HeaderOf(const Tensor& tensor, uint64_t tag = 0);

struct MessageKeyHash {
  size_t operator()(const MessageKey& key) const {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;
    uint64_t hash = key.scope * kOdd;
    hash = (hash ^ (hash >> 32) ^ key.step) * kOdd;
    hash = (hash ^ (hash >> 32) ^ key.item) * kOdd;
    return static_cast<size_t>(hash ^ (hash >> 32));
  }
};

}  // namespace lockstep::net
