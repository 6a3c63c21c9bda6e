#include "lockstep/cluster/internal/rpc_frame.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/internal/bytes.h"

namespace lockstep::cluster::internal {
namespace {

constexpr uint32_t kMagic = 0x3143534C;  // "LSC1"
constexpr uint32_t kLastBit = 1;
constexpr uint32_t kReplyBit = 2;
constexpr size_t kSignedBytes = 32;

Result<Digest> Mac(std::string_view header, std::string_view method, std::string_view payload,
                   std::string_view key) {
  // The payload's length is in the header, so that no byte can move between method and payload.
  return HmacSha256(key, {header.substr(0, kSignedBytes), method, payload});
}

}  // namespace

Result<std::string> FrameHeader(const RpcFrame& frame, std::string_view method,
                                std::string_view payload, std::string_view key) {
  LS_CHECK(payload.size() <= kFramePayloadBytes);
  ByteWriter writer;
  writer.U32(kMagic);
  writer.U32((frame.last ? kLastBit : 0) | (frame.reply ? kReplyBit : 0));
  writer.U64(frame.session);
  writer.U64(frame.call);
  writer.U32(frame.chunk);
  writer.U32(static_cast<uint32_t>(payload.size()));
  std::string header = writer.Take();
  LS_ASSIGN_OR_RETURN(const Digest mac, Mac(header, method, payload, key));
  header += BytesOf(mac);
  LS_CHECK(header.size() == kFrameHeaderBytes);
  return header;
}

Result<ParsedFrame> ParseFrame(std::string_view message) {
  if (message.size() < kFrameHeaderBytes) {
    return InvalidArgument(fmt::format("a control frame of {} bytes, the header alone has {}",
                                       message.size(), kFrameHeaderBytes));
  }
  ByteReader reader(message);
  const uint32_t magic = reader.U32();
  const uint32_t flags = reader.U32();
  ParsedFrame parsed;
  parsed.frame.last = (flags & kLastBit) != 0;
  parsed.frame.reply = (flags & kReplyBit) != 0;
  parsed.frame.session = reader.U64();
  parsed.frame.call = reader.U64();
  parsed.frame.chunk = reader.U32();
  const uint32_t size = reader.U32();
  if (magic != kMagic || (flags & ~(kLastBit | kReplyBit)) != 0) {
    return InvalidArgument("no control frame of this version");
  }
  if (size > kFramePayloadBytes || size != message.size() - kFrameHeaderBytes) {
    return InvalidArgument(fmt::format("a control frame with {} bytes of payload announces {}",
                                       message.size() - kFrameHeaderBytes, size));
  }
  parsed.header = message.substr(0, kFrameHeaderBytes);
  parsed.payload = message.substr(kFrameHeaderBytes);
  return parsed;
}

Status CheckFrame(const ParsedFrame& parsed, std::string_view method, std::string_view key) {
  LS_ASSIGN_OR_RETURN(const Digest mac, Mac(parsed.header, method, parsed.payload, key));
  if (!ConstantTimeEqual(parsed.header.substr(kSignedBytes), BytesOf(mac))) {
    return Unauthenticated("the authentication code of a control frame is wrong");
  }
  return OkStatus();
}

Result<std::string> JobKey(std::string_view secret) {
  LS_ASSIGN_OR_RETURN(const Digest key, HmacSha256(secret, {"lockstep control 1"}));
  return std::string(BytesOf(key));
}

Result<std::string> SessionKey(std::string_view job_key, std::string_view client_nonce,
                               std::string_view server_nonce) {
  LS_ASSIGN_OR_RETURN(const Digest key,
                      HmacSha256(job_key, {"session", client_nonce, server_nonce}));
  return std::string(BytesOf(key));
}

}  // namespace lockstep::cluster::internal
