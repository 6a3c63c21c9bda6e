#include "lockstep/base/quote.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

}  // namespace

bool HasControlCharacters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), IsControl);
}

std::string EscapeControls(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (IsControl(c)) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

std::string Quoted(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return fmt::format("'{}'", EscapeControls(text));
  }
  return fmt::format("'{}...' ({} bytes)", EscapeControls(text.substr(0, max_bytes)), text.size());
}

}  // namespace lockstep
