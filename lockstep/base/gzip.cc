#include "lockstep/base/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace lockstep {
namespace {

constexpr size_t kFirstChunkBytes = size_t{64} << 10;
// zlib's flag for "expect a gzip header", added to the window size.
constexpr int kGzipWindowBits = 15 + 16;

// Owns a zlib stream.
class Inflater {
 public:
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  ~Inflater() { inflateEnd(&stream_); }

  bool Start() { return inflateInit2(&stream_, kGzipWindowBits) == Z_OK; }

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

uInt Bounded(size_t size) {
  return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
}

// Grows geometrically and not by the size that the file claims, which is not to be trusted.
void Grow(std::string& output, uint64_t max_bytes) {
  // One byte more than allowed, so that passing the limit shows.
  const uint64_t limit =
      max_bytes == std::numeric_limits<uint64_t>::max() ? max_bytes : max_bytes + 1;
  const uint64_t wanted = std::max<uint64_t>(kFirstChunkBytes, uint64_t{output.size()} * 2);
  output.resize(static_cast<size_t>(std::min(wanted, limit)));
}

Status Corrupt(size_t offset, std::string_view what) {
  return DataLoss(fmt::format("gzip: {} at offset {}", what, offset));
}

// Inflates one member that begins at `offset`; moves `offset` behind it and adds to `used`.
Status InflateMember(std::string_view data, uint64_t max_bytes, size_t& offset, std::string& output,
                     size_t& used) {
  Inflater inflater;
  if (!inflater.Start()) {
    return ResourceExhausted("gzip: no memory to decompress");
  }
  z_stream& stream = inflater.stream();
  while (true) {
    if (used == output.size()) {
      Grow(output, max_bytes);
    }
    // zlib's interface is not const-correct; it does not write to its input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data() + offset));
    stream.avail_in = Bounded(data.size() - offset);
    stream.next_out = reinterpret_cast<Bytef*>(output.data() + used);
    stream.avail_out = Bounded(output.size() - used);
    const uInt given_in = stream.avail_in;
    const uInt given_out = stream.avail_out;
    const int result = inflate(&stream, Z_NO_FLUSH);
    offset += given_in - stream.avail_in;
    used += given_out - stream.avail_out;
    if (used > max_bytes) {
      return OutOfRange(
          fmt::format("gzip: decompresses to more than the limit of {} bytes", max_bytes));
    }
    if (result == Z_STREAM_END) {
      return OkStatus();
    }
    if (result == Z_BUF_ERROR ||
        (result == Z_OK && offset == data.size() && used < output.size())) {
      return Corrupt(offset, "truncated");
    }
    if (result == Z_MEM_ERROR) {
      return ResourceExhausted("gzip: no memory to decompress");
    }
    if (result != Z_OK) {
      return Corrupt(offset, stream.msg != nullptr ? stream.msg : "a preset dictionary");
    }
  }
}

}  // namespace

bool IsGzip(std::string_view data) {
  return data.substr(0, 2) == "\x1f\x8b";
}

Result<std::string> Gunzip(std::string_view data, uint64_t max_bytes) {
  try {
    std::string output;
    size_t used = 0;
    size_t offset = 0;
    do {
      if (!IsGzip(data.substr(offset))) {
        return Corrupt(offset, offset == 0 ? "no gzip header" : "bytes that belong to no member");
      }
      const size_t begin = offset;
      Status status = InflateMember(data, max_bytes, offset, output, used);
      if (!status.ok()) {
        return begin == 0 ? status : status.With(fmt::format("member at offset {}", begin));
      }
    } while (offset < data.size());
    output.resize(used);
    return output;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("gzip: no memory for the decompressed content");
  }
}

Result<std::string> GunzipBeginning(std::string_view data, size_t max_bytes) {
  if (!IsGzip(data)) {
    return Corrupt(0, "no gzip header");
  }
  Inflater inflater;
  if (!inflater.Start()) {
    return ResourceExhausted("gzip: no memory to decompress");
  }
  std::string output(max_bytes, '\0');
  z_stream& stream = inflater.stream();
  // zlib's interface is not const-correct; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = Bounded(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = Bounded(output.size());
  const uInt given_in = stream.avail_in;
  const uInt given_out = stream.avail_out;
  const int result = inflate(&stream, Z_SYNC_FLUSH);
  if (result == Z_MEM_ERROR) {
    return ResourceExhausted("gzip: no memory to decompress");
  }
  // Z_BUF_ERROR: one of the two ended before anything could be done.
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    return Corrupt(given_in - stream.avail_in,
                   stream.msg != nullptr ? stream.msg : "a preset dictionary");
  }
  output.resize(given_out - stream.avail_out);
  return output;
}

}  // namespace lockstep
