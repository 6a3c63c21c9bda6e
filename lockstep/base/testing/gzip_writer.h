// For tests: compression to one gzip member with zlib. The test links zlib.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

#include "lockstep/base/macros.h"

namespace lockstep::testing {

inline std::string Compress(std::string_view content) {
  constexpr int kLevel = 6;
  constexpr int kGzipWindowBits = 15 + 16;
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  LS_CHECK(deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                        Z_DEFAULT_STRATEGY) == Z_OK);
  std::string output(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<uInt>(output.size());
  LS_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  output.resize(stream.total_out);
  deflateEnd(&stream);
  return output;
}

}  // namespace lockstep::testing
