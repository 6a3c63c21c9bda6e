// UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::cluster::internal {

// Bytes of the character that `text` begins with; 0 if it is empty, or if its bytes are not UTF-8
// (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t Utf8Length(std::string_view text);

// Appends a character that Utf8Length accepts.
void AppendUtf8(uint32_t code, std::string& text);

}  // namespace lockstep::cluster::internal
