// Text of unknown origin in messages: control characters cannot disturb a terminal or a log, and
// long text is cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// True for bytes below 0x20 and for DEL.
bool HasControlCharacters(std::string_view text);

// Control characters as \n, \t or \x1b; everything else unchanged.
std::string EscapeControls(std::string_view text);

// In single quotes, escaped, and cut to `max_bytes`: 'aaa...' (5000 bytes).
std::string Quoted(std::string_view text, size_t max_bytes = 80);

}  // namespace lockstep
