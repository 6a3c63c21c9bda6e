// Decompression of gzip (RFC 1952) in memory. The input is untrusted: every checksum and length is
// checked, the output is bounded, and nothing but whole members may follow one another. Errors are
// DATA_LOSS and name the offset in the compressed input; OUT_OF_RANGE if the limit is passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

// Does it begin with gzip's two magic bytes?
bool IsGzip(std::string_view data);

// The content of all members, one after another, at most `max_bytes` of it.
Result<std::string> Gunzip(std::string_view data, uint64_t max_bytes);

// The first bytes of the content, at most `max_bytes` of them: fewer where the content or `data`,
// which may be the beginning of a longer input, ends before. Checksums are not reached and so not
// checked.
Result<std::string> GunzipBeginning(std::string_view data, size_t max_bytes);

}  // namespace lockstep
