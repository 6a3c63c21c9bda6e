// RpcFrame: one piece of a control call or of its reply, as it is on the wire (docs/protocol.md). A
// call is a stream of frames in each direction, so that no message is large and a stranger can
// make nobody keep more than one of them. Each frame carries a MAC over its header, the method and
// the payload. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::cluster::internal {

inline constexpr size_t kFrameHeaderBytes = 64;
// Payload of one frame, at most.
inline constexpr size_t kFramePayloadBytes = size_t{1} << 20;

struct RpcFrame {
  bool last = true;
  bool reply = false;
  uint64_t session = 0;
  // Numbers the calls of a session.
  uint64_t call = 0;
  // Numbers the frames of one direction of a call.
  uint32_t chunk = 0;
};

// The 64 bytes that go before `payload`. `key` is the session's.
Result<std::string> FrameHeader(const RpcFrame& frame, std::string_view method,
                                std::string_view payload, std::string_view key);

// Splits a message into header and payload, without checking the MAC. INVALID_ARGUMENT for what is
// no frame.
struct ParsedFrame {
  RpcFrame frame;
  std::string_view header;
  std::string_view payload;
};

Result<ParsedFrame> ParseFrame(std::string_view message);

// UNAUTHENTICATED if the MAC is wrong.
Status CheckFrame(const ParsedFrame& parsed, std::string_view method, std::string_view key);

// The key of a job, from its secret; the same for every task.
Result<std::string> JobKey(std::string_view secret);
// The key of a session, from what both ends made up.
Result<std::string> SessionKey(std::string_view job_key, std::string_view client_nonce,
                               std::string_view server_nonce);

}  // namespace lockstep::cluster::internal
