#include "lockstep/cluster/internal/rpc_status.h"

#include "lockstep/cluster/internal/bytes.h"

namespace lockstep::cluster::internal {
namespace {

constexpr uint32_t kMaxCode = static_cast<uint32_t>(StatusCode::kUnauthenticated);

void Write(const Status& status, ByteWriter& writer) {
  writer.U32(static_cast<uint32_t>(status.code()));
  writer.U32(static_cast<uint32_t>(status.context().size()));
  writer.U64(status.message().size());
  writer.Bytes(status.message());
  for (const std::string& frame : status.context()) {
    writer.U64(frame.size());
    writer.Bytes(frame);
  }
}

// False if the bytes are none; `status` then is untouched.
bool Read(ByteReader& reader, Status& status) {
  const uint32_t code = reader.U32();
  const uint32_t frames = reader.U32();
  const std::string_view message = reader.Bytes(reader.U64());
  if (!reader.ok() || code > kMaxCode) {
    return false;
  }
  Status read = code == 0 ? OkStatus() : Status(StatusCode(code), std::string(message));
  for (uint32_t i = 0; i < frames && reader.ok(); ++i) {
    read = read.With(std::string(reader.Bytes(reader.U64())));
  }
  if (!reader.ok()) {
    return false;
  }
  status = std::move(read);
  return true;
}

}  // namespace

std::string EncodeReply(const Result<std::string>& result) {
  ByteWriter writer;
  Write(result.status(), writer);
  if (result.ok()) {
    writer.Bytes(*result);
  }
  return writer.Take();
}

Result<std::string> DecodeReply(std::string_view bytes) {
  ByteReader reader(bytes);
  Status status;
  if (!Read(reader, status)) {
    return Internal("a reply without a readable status");
  }
  if (!status.ok()) {
    return status;
  }
  return std::string(reader.rest());
}

std::string EncodeStatus(const Status& status) {
  ByteWriter writer;
  Write(status, writer);
  return writer.Take();
}

Status DecodeStatus(std::string_view bytes) {
  ByteReader reader(bytes);
  Status status;
  if (!Read(reader, status) || !reader.rest().empty()) {
    return Internal("an unreadable status");
  }
  return status;
}

}  // namespace lockstep::cluster::internal
