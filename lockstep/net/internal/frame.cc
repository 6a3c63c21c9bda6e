#include "lockstep/net/internal/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::net::internal {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are written as they lie in memory");

constexpr uint8_t kMagic = 0xA7;

struct Fixed {
  uint8_t magic;
  uint8_t type;
  uint8_t dtype;
  uint8_t rank;
  uint8_t code;
  uint8_t zero[3];
  uint64_t transfer;
  uint64_t value;
  uint64_t payload_bytes;
  uint64_t tag;
  uint64_t scope;
  uint64_t step;
  uint64_t item;
};

static_assert(sizeof(Fixed) == kMinFrameBytes);

bool HasReason(FrameType type) {
  return type == FrameType::kRefuse || type == FrameType::kWithdraw || type == FrameType::kAbort;
}

bool HasMessage(FrameType type) {
  return type == FrameType::kEager || type == FrameType::kAnnounce;
}

}  // namespace

size_t EncodeFrame(const Frame& frame, FrameBytes& bytes) {
  const int rank = frame.header.shape.rank();
  const Fixed fixed = {.magic = kMagic,
                       .type = static_cast<uint8_t>(frame.type),
                       .dtype = static_cast<uint8_t>(frame.header.dtype),
                       .rank = static_cast<uint8_t>(rank),
                       .code = static_cast<uint8_t>(frame.code),
                       .zero = {},
                       .transfer = frame.transfer,
                       .value = frame.value,
                       .payload_bytes = frame.header.bytes,
                       .tag = frame.header.tag,
                       .scope = frame.key.scope,
                       .step = frame.key.step,
                       .item = frame.key.item};
  std::memcpy(bytes.data(), &fixed, sizeof(fixed));
  const std::span<const int64_t> dims = frame.header.shape.dims();
  if (!dims.empty()) {
    std::memcpy(bytes.data() + sizeof(fixed), dims.data(), dims.size_bytes());
  }
  return sizeof(fixed) + dims.size_bytes();
}

Result<ParsedFrame> ParseFrame(std::span<const std::byte> bytes) {
  Fixed fixed{};
  if (bytes.size() < sizeof(fixed)) {
    return InvalidArgument(
        fmt::format("a frame of {} bytes: at least {} are needed", bytes.size(), sizeof(fixed)));
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.magic != kMagic || fixed.zero[0] != 0 || fixed.zero[1] != 0 || fixed.zero[2] != 0) {
    return InvalidArgument(
        fmt::format("no frame of Lockstep: it begins with byte {:#x}", fixed.magic));
  }
  if (fixed.type < static_cast<uint8_t>(FrameType::kEager) ||
      fixed.type > static_cast<uint8_t>(FrameType::kPong)) {
    return InvalidArgument(fmt::format("a frame of unknown type {}", fixed.type));
  }
  if (fixed.rank > Shape::kMaxRank) {
    return InvalidArgument(fmt::format("a frame with {} dimensions: at most {} are allowed",
                                       fixed.rank, Shape::kMaxRank));
  }
  if (fixed.code > static_cast<uint8_t>(StatusCode::kUnauthenticated)) {
    return InvalidArgument(fmt::format("a frame with unknown status code {}", fixed.code));
  }
  ParsedFrame parsed;
  parsed.header_bytes = sizeof(fixed) + 8U * fixed.rank;
  if (bytes.size() < parsed.header_bytes) {
    return InvalidArgument(fmt::format("a frame of {} bytes: {} dimensions need {}", bytes.size(),
                                       fixed.rank, parsed.header_bytes));
  }
  Frame& frame = parsed.frame;
  frame.type = static_cast<FrameType>(fixed.type);
  LS_ASSIGN_OR_RETURN(frame.header.dtype, DTypeFromInt(fixed.dtype));
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::memcpy(dims.data(), bytes.data() + sizeof(fixed), 8U * fixed.rank);
  LS_ASSIGN_OR_RETURN(frame.header.shape, Shape::Create(std::span(dims.data(), fixed.rank)));
  if (!frame.header.shape.fully_known()) {
    return InvalidArgument(
        fmt::format("a frame with the open shape {}", frame.header.shape.ToString()));
  }
  frame.header.bytes = fixed.payload_bytes;
  frame.header.tag = fixed.tag;
  frame.key = {.scope = fixed.scope, .step = fixed.step, .item = fixed.item};
  frame.transfer = fixed.transfer;
  frame.value = fixed.value;
  frame.code = static_cast<StatusCode>(fixed.code);
  if (HasReason(frame.type) && frame.code == StatusCode::kOk) {
    return InvalidArgument("a frame that ends a transfer without an error");
  }
  // No payload has more bytes than elements of a tensor may need.
  if (HasMessage(frame.type) && frame.header.bytes > (uint64_t{1} << 62)) {
    return InvalidArgument(fmt::format("a message of {} bytes", frame.header.bytes));
  }
  return parsed;
}

Status CheckBody(const Frame& frame, uint64_t body_bytes) {
  if (HasReason(frame.type)) {
    return body_bytes <= kMaxReasonBytes
               ? OkStatus()
               : InvalidArgument(fmt::format("a reason of {} bytes", body_bytes));
  }
  if (frame.type == FrameType::kData) {
    return body_bytes > 0 ? OkStatus() : InvalidArgument("a data frame without data");
  }
  const uint64_t expected = frame.type == FrameType::kEager ? frame.header.bytes : 0;
  if (body_bytes != expected) {
    return InvalidArgument(fmt::format("a frame of type {} with a body of {} bytes instead of {}",
                                       static_cast<int>(frame.type), body_bytes, expected));
  }
  return OkStatus();
}

Frame ReasonFrame(FrameType type, const Status& status) {
  Frame frame;
  frame.type = type;
  frame.code = status.ok() ? StatusCode::kUnknown : status.code();
  return frame;
}

std::string ReasonText(const Status& status) {
  std::string text = status.message();
  for (const std::string& context : status.context()) {
    text += fmt::format(" [{}]", context);
  }
  text.resize(std::min(text.size(), kMaxReasonBytes));
  return text;
}

Status ReasonOf(const Frame& frame, std::span<const std::byte> body) {
  const StatusCode code = frame.code == StatusCode::kOk ? StatusCode::kUnknown : frame.code;
  return Status(code, std::string(reinterpret_cast<const char*>(body.data()), body.size()));
}

}  // namespace lockstep::net::internal
