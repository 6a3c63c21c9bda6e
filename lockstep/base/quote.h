// Text of unknown origin in messages: control characters cannot disturb a terminal or a log, and
// long text is cut. Every message that repeats what a user, a file or a peer said uses one of them:
// Quoted for a value, Shown for a path or a flag.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// True for bytes below 0x20 and for DEL.
bool HasControlCharacters(std::string_view text);

// Controls (also those of UTF-8 above 0x7f and of the direction of writing) and bytes that are no
// UTF-8 as \n, \t or \x1b; everything else unchanged. Doing it twice is the same as doing it once.
std::string EscapeControls(std::string_view text);

// Escaped, without quotes, and without its middle where it is longer than `max_bytes`:
// "aaa...zzz (5000 bytes)".
std::string Shown(std::string_view text, size_t max_bytes = 500);

// In single quotes, escaped, and cut to `max_bytes`: 'aaa...' (5000 bytes).
std::string Quoted(std::string_view text, size_t max_bytes = 80);

}  // namespace lockstep
