#include "lockstep/cluster/internal/toml_document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/utf8.h"

namespace lockstep::cluster::internal {
namespace {

Position At(const toml::source_region& source) {
  return {source.begin.line, source.begin.column, Position::kUnknown};
}

Status Convert(const toml::node& from, const Document& document, int depth, Node& to) {
  to.at = At(from.source());
  if (depth > kMaxDocumentDepth) {
    return FaultAt(document, to.at,
                   fmt::format("nested more than {} levels deep", kMaxDocumentDepth));
  }
  switch (from.type()) {
    case toml::node_type::table:
      to.kind = Node::Kind::kObject;
      for (const auto& [key, value] : *from.as_table()) {
        Member& member = to.members.emplace_back();
        member.key = key.str();
        member.at = At(key.source());
        LS_TRY(Convert(value, document, depth + 1, member.value));
      }
      return OkStatus();
    case toml::node_type::array:
      to.kind = Node::Kind::kArray;
      for (const toml::node& item : *from.as_array()) {
        LS_TRY(Convert(item, document, depth + 1, to.items.emplace_back()));
      }
      return OkStatus();
    case toml::node_type::string:
      to.kind = Node::Kind::kString;
      to.text = from.as_string()->get();
      return OkStatus();
    case toml::node_type::integer:
      to.kind = Node::Kind::kNumber;
      to.text = std::to_string(from.as_integer()->get());
      return OkStatus();
    case toml::node_type::floating_point:
      to.kind = Node::Kind::kNumber;
      to.text = fmt::format("{:#}", from.as_floating_point()->get());
      return OkStatus();
    case toml::node_type::boolean:
      to.kind = Node::Kind::kBool;
      to.text = from.as_boolean()->get() ? "true" : "false";
      return OkStatus();
    default:
      return FaultAt(document, to.at, "a date or time; a string, a number or a list is expected");
  }
}

// What TOML allows nowhere. Found here, because toml++ asserts on some of it instead of saying so.
Status CheckCharacters(std::string_view text, const Document& document) {
  Position at;
  while (at.offset < text.size()) {
    const char c = text[at.offset];
    const size_t length = Utf8Length(text.substr(at.offset));
    if (length == 0) {
      return FaultAt(document, at, "bytes that are not UTF-8");
    }
    const bool space = c == '\t' || c == '\n' || c == '\r';
    if (!space && HasControlCharacters(std::string_view(&c, 1))) {
      return FaultAt(document, at,
                     fmt::format("the control character {}", Quoted(std::string_view(&c, 1))));
    }
    at.offset += length;
    at.column = c == '\n' ? 1 : at.column + length;
    at.line += c == '\n' ? 1 : 0;
  }
  return OkStatus();
}

// The first byte of the line that is not ASCII and stands neither in a string nor in a comment;
// npos if there is none. toml++ 3.3 shifts too far when it looks whether such a character may
// begin a key; it may not.
size_t FindStrayByte(std::string_view line) {
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      i += quote == '"' && c == '\\' ? 1 : 0;
      quote = c == quote ? '\0' : quote;
    } else if (c == '#') {
      break;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return i;
    }
  }
  return std::string_view::npos;
}

bool BeginsKey(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '"' || c == '\'';
}

// toml++ 3.3 asserts that the name in a header "[name]" begins as a name does, or in a release
// build takes it for granted; so it is checked before. A line that begins with '[' is a header
// unless it is part of a string or list of several lines: the former are refused, and a list in a
// list is none that describes a cluster.
Status CheckLines(std::string_view text, const Document& document) {
  Position at;
  // A byte order mark is no character of the text.
  at.offset = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at.offset < text.size()) {
    const std::string_view line = text.substr(at.offset, text.find('\n', at.offset) - at.offset);
    for (const std::string_view quotes : {"\"\"\"", "\'\'\'"}) {
      if (const size_t column = line.find(quotes); column != std::string_view::npos) {
        at.column += column;
        return FaultAt(document, at, "a string of several lines; a cluster needs none");
      }
    }
    if (const size_t column = FindStrayByte(line); column != std::string_view::npos) {
      at.column += column;
      return FaultAt(document, at, "a character that is not ASCII, outside of strings");
    }
    const size_t open = line.find_first_not_of(" \t");
    if (open != std::string_view::npos && line[open] == '[') {
      const size_t second = open + (line.substr(open).starts_with("[[") ? 2 : 1);
      const size_t name = line.find_first_not_of(" \t", second);
      if (name == std::string_view::npos || (!BeginsKey(line[name]) && line[name] != ']')) {
        at.column += open;
        return FaultAt(document, at, "a name is expected behind the '[' that begins a line");
      }
    }
    at.offset += line.size() + 1;
    ++at.line;
  }
  return OkStatus();
}

}  // namespace

Result<Node> ParseToml(std::string_view text, const Document& document) {
  if (text.size() > kMaxDocumentBytes) {
    return FaultAt(document, {},
                   fmt::format("{} bytes are more than the {} that are allowed", text.size(),
                               kMaxDocumentBytes));
  }
  LS_TRY(CheckCharacters(text, document));
  LS_TRY(CheckLines(text, document));
  try {
    const toml::table table = toml::parse(text, std::string_view(document.name));
    Node root;
    LS_TRY(Convert(table, document, 0, root));
    root.at = {};
    return root;
  } catch (const toml::parse_error& error) {
    return FaultAt(document, At(error.source()), error.description());
  }
}

}  // namespace lockstep::cluster::internal
