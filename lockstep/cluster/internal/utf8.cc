#include "lockstep/cluster/internal/utf8.h"

#include <array>

namespace lockstep::cluster::internal {
namespace {

struct Form {
  uint8_t mask;
  uint8_t lead;
  uint32_t least;
};

// By length - 1.
constexpr std::array<Form, 4> kForms = {{
    {0x80, 0x00, 0},
    {0xE0, 0xC0, 0x80},
    {0xF0, 0xE0, 0x800},
    {0xF8, 0xF0, 0x10000},
}};

}  // namespace

size_t Utf8Length(std::string_view text) {
  for (size_t length = 1; length <= kForms.size() && length <= text.size(); ++length) {
    const Form& form = kForms[length - 1];
    const auto lead = static_cast<uint8_t>(text[0]);
    if ((lead & form.mask) != form.lead) {
      continue;
    }
    uint32_t code = lead & static_cast<uint8_t>(~form.mask);
    for (size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if ((byte & 0xC0) != 0x80) {
        return 0;
      }
      code = (code << 6) | (byte & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code >= form.least && code <= 0x10FFFF && !surrogate ? length : 0;
  }
  return 0;
}

void AppendUtf8(uint32_t code, std::string& text) {
  size_t length = kForms.size();
  while (length > 1 && code < kForms[length - 1].least) {
    --length;
  }
  text += static_cast<char>(kForms[length - 1].lead | (code >> (6 * (length - 1))));
  for (size_t i = length - 1; i > 0; --i) {
    text += static_cast<char>(0x80 | ((code >> (6 * (i - 1))) & 0x3F));
  }
}

}  // namespace lockstep::cluster::internal
