#include "lockstep/cluster/internal/run_wire.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>

#include "lockstep/cluster/internal/bytes.h"
#include "lockstep/cluster/internal/rpc_status.h"

namespace lockstep::cluster::internal {
namespace {

using std::chrono::microseconds;

// Tensors in a message have this many bytes together, so that it stays one that travels at once.
constexpr size_t kInlineBytes = 4096;
constexpr uint64_t kNoTimeout = UINT64_MAX;
constexpr uint64_t kLongestTimeout = uint64_t{365} * 24 * 3600 * 1'000'000;
// In place of type (8 bits) and rank (8 bits) of a tensor that comes separately.
constexpr uint32_t kSeparate = uint32_t{1} << 16;

Status WriteTensors(std::span<const Tensor> tensors, ByteWriter& writer, Separate& separate) {
  writer.U32(static_cast<uint32_t>(tensors.size()));
  size_t inside = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.has_value()) {
      return InvalidArgument("a tensor that holds nothing cannot be sent");
    }
    if (inside + tensor.bytes() > kInlineBytes) {
      separate.push_back(i);
      writer.U32(kSeparate);
      continue;
    }
    inside += tensor.bytes();
    const std::span<const int64_t> dims = tensor.shape().dims();
    writer.U32(static_cast<uint32_t>(tensor.dtype()) | static_cast<uint32_t>(dims.size()) << 8);
    for (const int64_t dim : dims) {
      writer.U64(static_cast<uint64_t>(dim));
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (next < separate.size() && separate[next] == i) {
      ++next;
    } else {
      writer.Bytes({static_cast<const char*>(tensors[i].data()), tensors[i].bytes()});
    }
  }
  return OkStatus();
}

Result<Tensor> ReadMeta(ByteReader& reader, uint32_t word) {
  const uint32_t rank = word >> 8;
  if (rank > static_cast<uint32_t>(Shape::kMaxRank)) {
    return InvalidArgument(fmt::format("a tensor described by {:#x}", word));
  }
  LS_ASSIGN_OR_RETURN(const DType dtype, DTypeFromInt(static_cast<int>(word & 0xFF)));
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (uint32_t i = 0; i < rank; ++i) {
    dims[i] = static_cast<int64_t>(reader.U64());
  }
  LS_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(std::span(dims.data(), rank)));
  // Every element has a byte at least.
  if (!shape.fully_known() || static_cast<uint64_t>(shape.num_elements()) > reader.rest().size()) {
    return InvalidArgument(
        fmt::format("a tensor {} {} inside a message", DTypeName(dtype), shape.ToString()));
  }
  return Tensor::Allocate(dtype, shape);
}

Status ReadTensors(ByteReader& reader, std::vector<Tensor>& tensors, Separate& separate) {
  const uint32_t count = reader.U32();
  // Every one has a word at least.
  if (!reader.ok() || count > reader.rest().size() / sizeof(uint32_t)) {
    return InvalidArgument(
        fmt::format("{} tensors described in {} bytes", count, reader.rest().size()));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t word = reader.U32();
    if (word == kSeparate) {
      separate.push_back(i);
      tensors.emplace_back();
      continue;
    }
    LS_ASSIGN_OR_RETURN(Tensor tensor, ReadMeta(reader, word));
    tensors.push_back(std::move(tensor));
  }
  size_t next = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (next < separate.size() && separate[next] == i) {
      ++next;
      continue;
    }
    const std::string_view bytes = reader.Bytes(tensors[i].bytes());
    if (!bytes.empty()) {
      std::memcpy(tensors[i].data(), bytes.data(), bytes.size());
    }
  }
  if (!reader.ok() || !reader.rest().empty()) {
    return InvalidArgument(reader.ok() ? "bytes behind the last tensor" : "too few elements");
  }
  return OkStatus();
}

uint64_t TimeoutOf(const Deadline& deadline) {
  if (deadline.infinite()) {
    return kNoTimeout;
  }
  return static_cast<uint64_t>(
      std::chrono::duration_cast<microseconds>(deadline.remaining()).count());
}

Deadline DeadlineOf(uint64_t timeout) {
  return timeout > kLongestTimeout
             ? Deadline::Infinite()
             : Deadline::At(Deadline::Clock::now() + microseconds(static_cast<int64_t>(timeout)));
}

}  // namespace

net::MessageHeader HeaderOfBytes(uint64_t bytes) {
  net::MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

Result<std::string> EncodeRunRequest(uint64_t run, const WorkerRun& what,
                                     std::span<const Tensor> feeds, Separate& separate) {
  ByteWriter writer;
  writer.U64(run);
  writer.U64(what.scope);
  writer.U64(what.step);
  writer.U64(what.info.seed);
  writer.U64(static_cast<uint64_t>(what.info.step));
  writer.U64(TimeoutOf(what.deadline));
  LS_TRY(WriteTensors(feeds, writer, separate));
  return writer.Take();
}

Result<RunRequest> ParseRunRequest(std::string_view bytes) {
  ByteReader reader(bytes);
  RunRequest request;
  request.run = reader.U64();
  request.what.scope = reader.U64();
  request.what.step = reader.U64();
  const uint64_t seed = reader.U64();
  request.what.info = {seed, static_cast<int64_t>(reader.U64()), 0};
  request.what.deadline = DeadlineOf(reader.U64());
  LS_TRY(ReadTensors(reader, request.feeds, request.separate));
  return request;
}

Result<std::string> EncodeRunReply(const Result<std::vector<Tensor>>& fetches, Separate& separate) {
  ByteWriter writer;
  const std::string status = fetches.ok() ? std::string() : EncodeStatus(fetches.status());
  writer.U64(status.size());
  writer.Bytes(status);
  if (fetches.ok()) {
    LS_TRY(WriteTensors(*fetches, writer, separate));
  }
  return writer.Take();
}

Result<RunReply> ParseRunReply(std::string_view bytes) {
  ByteReader reader(bytes);
  RunReply reply;
  const std::string_view status = reader.Bytes(reader.U64());
  if (status.empty()) {
    LS_TRY(ReadTensors(reader, reply.fetches, reply.separate));
    return reply;
  }
  reply.status = DecodeStatus(status);
  if (!reader.ok() || reply.status.ok()) {
    return InvalidArgument("a reply with a status that is none");
  }
  return reply;
}

}  // namespace lockstep::cluster::internal
