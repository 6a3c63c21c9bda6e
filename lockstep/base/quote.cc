#include "lockstep/base/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none. Table 3-7 of the
// Unicode standard.
size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) {
    return 1;
  }
  const size_t bytes = lead < 0xC2 || lead > 0xF4 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes == 0 || text.size() < bytes) {
    return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool too_long = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool too_high = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  const std::string_view rest = text.substr(1, bytes - 1);
  return !too_long && !too_high && std::all_of(rest.begin(), rest.end(), IsContinuation) ? bytes
                                                                                         : 0;
}

uint32_t CodePoint(std::string_view character) {
  constexpr unsigned int kLeadBits[] = {0x7F, 0x1F, 0x0F, 0x07};
  uint32_t code = static_cast<unsigned char>(character[0]) & kLeadBits[character.size() - 1];
  for (const char c : character.substr(1)) {
    code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return code;
}

// What shows nothing itself, but changes what the rest looks like: some terminals take U+009B for
// the beginning of a command, and U+202E turns the direction of writing around.
bool IsHidden(std::string_view character) {
  constexpr std::pair<uint32_t, uint32_t> kHidden[] = {
      {0x80, 0x9F},        // controls
      {0xAD, 0xAD},        // soft hyphen
      {0x61C, 0x61C},      // Arabic letter mark
      {0x180E, 0x180E},    // Mongolian vowel separator
      {0x200B, 0x200F},    // zero width, direction marks
      {0x2028, 0x202E},    // line and paragraph, directions
      {0x2060, 0x206F},    // joiners, invisible operators, isolated directions
      {0xFEFF, 0xFEFF},    // byte order mark
      {0xFFF9, 0xFFFB},    // annotations
      {0xE0000, 0xE007F},  // tags
  };
  const uint32_t code = CodePoint(character);
  return std::any_of(std::begin(kHidden), std::end(kHidden), [code](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

void AppendEscaped(std::string_view bytes, std::string& result) {
  for (const char c : bytes) {
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
}

// The longest beginning of at most `max_bytes` that cuts no character.
std::string_view Head(std::string_view text, size_t max_bytes) {
  size_t size = std::min(max_bytes, text.size());
  while (size > 0 && size < text.size() && IsContinuation(text[size])) {
    --size;
  }
  return text.substr(0, size);
}

std::string_view Tail(std::string_view text, size_t max_bytes) {
  size_t begin = text.size() - std::min(max_bytes, text.size());
  while (begin < text.size() && IsContinuation(text[begin])) {
    ++begin;
  }
  return text.substr(begin);
}

}  // namespace

bool HasControlCharacters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), IsControl);
}

std::string EscapeControls(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    if (bytes == 0 || IsControl(character[0]) || IsHidden(character)) {
      AppendEscaped(character, result);
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

std::string Shown(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return EscapeControls(text);
  }
  // Of a path the end says more than the middle.
  const size_t tail = max_bytes / 3;
  return fmt::format("{}...{} ({} bytes)", EscapeControls(Head(text, max_bytes - tail)),
                     EscapeControls(Tail(text, tail)), text.size());
}

std::string Quoted(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return fmt::format("'{}'", EscapeControls(text));
  }
  return fmt::format("'{}...' ({} bytes)", EscapeControls(Head(text, max_bytes)), text.size());
}

}  // namespace lockstep
