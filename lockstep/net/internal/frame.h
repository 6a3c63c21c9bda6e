// Frames: what links carry between two transports, the same bytes on every link. docs/protocol.md
// has the layout. A frame is a header of 64 + 8 * rank bytes, little-endian, and a body.
//
//   FrameBytes bytes;
//   const size_t size = EncodeFrame(frame, bytes);
//   LS_ASSIGN_OR_RETURN(const ParsedFrame parsed, ParseFrame(received));
//
// What a peer sent is hostile: ParseFrame checks everything that can be checked without knowing the
// state of the link. Errors: InvalidArgument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/result.h"
#include "lockstep/net/message.h"

namespace lockstep::net::internal {

enum class FrameType : uint8_t {
  kEager = 1,     // a message with its payload as the body
  kAnnounce = 2,  // a message whose payload waits at the sender as `transfer`
  kPull = 3,      // receiver to sender: send the payload of `transfer`
  kData = 4,      // bytes from offset `value` of `transfer`
  kDone = 5,      // receiver to sender: the payload of `transfer` has been read
  kRefuse = 6,    // receiver to sender: `transfer` is not wanted; code, body = reason
  kWithdraw = 7,  // sender to receiver: `transfer` is no longer offered; code, body = reason
  kCredit = 8,    // receiver to sender: `value` bytes of eager messages were consumed
  kAbort = 9,     // give up (key.scope, key.step); code, body = reason
  kBye = 10,      // the last frame of an orderly end
  kPing = 11,     // are you there?
  kPong = 12,     // the answer
};

struct Frame {
  FrameType type = FrameType::kBye;
  MessageKey key;
  MessageHeader header;
  uint64_t transfer = 0;
  uint64_t value = 0;
  StatusCode code = StatusCode::kOk;
};

constexpr size_t kMinFrameBytes = 64;
constexpr size_t kMaxFrameBytes = kMinFrameBytes + 8 * Shape::kMaxRank;
// Of the text in kRefuse, kWithdraw and kAbort.
constexpr size_t kMaxReasonBytes = 2048;

using FrameBytes = std::array<std::byte, kMaxFrameBytes>;

// The number of bytes written.
size_t EncodeFrame(const Frame& frame, FrameBytes& bytes);

struct ParsedFrame {
  Frame frame;
  size_t header_bytes = 0;  // the body begins here
};

// `bytes` is a frame's header, perhaps with its body.
Result<ParsedFrame> ParseFrame(std::span<const std::byte> bytes);

// The body must have this size: that of the payload for kEager, what is left for kData, a text's
// for reasons, none for others. Errors: InvalidArgument.
Status CheckBody(const Frame& frame, uint64_t body_bytes);

// A frame that carries a status, and its text cut to kMaxReasonBytes.
Frame ReasonFrame(FrameType type, const Status& status);
std::string ReasonText(const Status& status);
// The status that such a frame carries.
Status ReasonOf(const Frame& frame, std::span<const std::byte> body);

}  // namespace lockstep::net::internal
