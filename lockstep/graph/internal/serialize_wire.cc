#include "lockstep/graph/internal/serialize_wire.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

namespace lockstep::internal {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

bool ReadValue(CodedInputStream& in, WireFormatLite::WireType type, uint64_t& value) {
  uint32_t fixed32 = 0;
  switch (type) {
    case WireFormatLite::WIRETYPE_VARINT:
      return in.ReadVarint64(&value);
    case WireFormatLite::WIRETYPE_FIXED64:
      return in.ReadLittleEndian64(&value);
    case WireFormatLite::WIRETYPE_FIXED32:
      if (!in.ReadLittleEndian32(&fixed32)) {
        return false;
      }
      value = fixed32;
      return true;
    default:
      return false;
  }
}

}  // namespace

Status ForEachWireField(std::string_view message, size_t base,
                        const std::function<Status(const WireField&)>& visit) {
  if (message.size() >= static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument(
        fmt::format("a message of {} bytes, allowed are less than 2 GiB", message.size()));
  }
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  const auto position = [&in] { return static_cast<size_t>(in.CurrentPosition()); };
  while (position() < message.size()) {
    WireField field;
    field.offset = position();
    const uint32_t tag = in.ReadTag();
    field.number = static_cast<uint32_t>(WireFormatLite::GetTagFieldNumber(tag));
    const WireFormatLite::WireType type = WireFormatLite::GetTagWireType(tag);
    field.delimited = type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    bool good = field.number != 0;
    if (good && field.delimited) {
      uint64_t length = 0;
      good = in.ReadVarint64(&length) && length <= message.size() - position();
      if (good) {
        field.bytes = message.substr(position(), length);
        good = in.Skip(static_cast<int>(length));
      }
    } else if (good) {
      good = ReadValue(in, type, field.value);
    }
    if (!good) {
      return InvalidArgument(fmt::format(
          "byte {}: malformed or cut off (no whole field begins here)", base + field.offset));
    }
    LS_TRY(visit(field));
  }
  return OkStatus();
}

}  // namespace lockstep::internal
