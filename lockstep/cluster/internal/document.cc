#include "lockstep/cluster/internal/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/utf8.h"

namespace lockstep::cluster::internal {
namespace {

// Nothing that describes a cluster is deeper than five.

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

class JsonParser {
 public:
  JsonParser(std::string_view text, const Document& document) : text_(text), document_(document) {}

  Result<Node> Run() {
    if (text_.size() > kMaxDocumentBytes) {
      return FaultAt(document_, Here(),
                     fmt::format("{} bytes are more than the {} that are allowed", text_.size(),
                                 kMaxDocumentBytes));
    }
    if (text_.starts_with("\xef\xbb\xbf")) {
      return Fault("a byte order mark; JSON begins without one");
    }
    Node root;
    LS_TRY(Value(root, 0));
    SkipSpace();
    if (!AtEnd()) {
      return Fault(fmt::format("found {} after the end of the JSON value", FoundHere()));
    }
    return root;
  }

 private:
  bool AtEnd() const { return offset_ == text_.size(); }

  char Peek() const { return text_[offset_]; }

  Position Here() const { return {line_, offset_ - line_start_ + 1, offset_}; }

  Status Fault(std::string_view message) const { return FaultAt(document_, Here(), message); }

  // What stands here, for messages.
  std::string FoundHere() const {
    if (AtEnd()) {
      return "the end of the text";
    }
    size_t end = offset_ + 1;
    const auto word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_';
    };
    while (word(Peek()) && end < text_.size() && word(text_[end])) {
      ++end;
    }
    return Quoted(text_.substr(offset_, end - offset_), 20);
  }

  Status Expected(std::string_view what) const {
    if (!AtEnd() && Peek() == '\'') {
      return Fault(
          fmt::format("expected {}, found a single quote; JSON strings are in double "
                      "quotes",
                      what));
    }
    return Fault(fmt::format("expected {}, found {}", what, FoundHere()));
  }

  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\r' || Peek() == '\n')) {
      const bool newline = Peek() == '\n';
      ++offset_;
      if (newline) {
        ++line_;
        line_start_ = offset_;
      }
    }
  }

  bool Take(char c) {
    if (AtEnd() || Peek() != c) {
      return false;
    }
    ++offset_;
    return true;
  }

  Status Value(Node& node, int depth) {
    SkipSpace();
    node.at = Here();
    if (depth > kMaxDocumentDepth) {
      return Fault(fmt::format("nested more than {} levels deep", kMaxDocumentDepth));
    }
    if (AtEnd()) {
      return Expected("a value");
    }
    switch (Peek()) {
      case '{':
        node.kind = Node::Kind::kObject;
        return Object(node, depth);
      case '[':
        node.kind = Node::Kind::kArray;
        return Array(node, depth);
      case '"':
        node.kind = Node::Kind::kString;
        return String(node.text);
      default:
        return Scalar(node);
    }
  }

  Status Scalar(Node& node) {
    constexpr std::array<std::pair<std::string_view, Node::Kind>, 3> kWords = {{
        {"true", Node::Kind::kBool},
        {"false", Node::Kind::kBool},
        {"null", Node::Kind::kNull},
    }};
    for (const auto& [word, kind] : kWords) {
      if (text_.substr(offset_).starts_with(word)) {
        node.kind = kind;
        node.text = word;
        offset_ += word.size();
        return OkStatus();
      }
    }
    if (Peek() == '-' || IsDigit(Peek())) {
      node.kind = Node::Kind::kNumber;
      return Number(node.text);
    }
    return Expected("a value");
  }

  bool Digits() {
    const size_t begin = offset_;
    while (!AtEnd() && IsDigit(Peek())) {
      ++offset_;
    }
    return offset_ > begin;
  }

  Status Number(std::string& number) {
    const size_t begin = offset_;
    Take('-');
    if (Take('0')) {
      if (!AtEnd() && IsDigit(Peek())) {
        return Fault("a number with leading zeros");
      }
    } else if (!Digits()) {
      return Expected("a digit");
    }
    if (Take('.') && !Digits()) {
      return Expected("a digit");
    }
    if (Take('e') || Take('E')) {
      if (!Take('+')) {
        Take('-');
      }
      if (!Digits()) {
        return Expected("a digit");
      }
    }
    number = text_.substr(begin, offset_ - begin);
    return OkStatus();
  }

  Status String(std::string& value) {
    const Position begin = Here();
    ++offset_;
    while (true) {
      if (AtEnd()) {
        return FaultAt(document_, begin, "a string without its closing quote");
      }
      const char c = Peek();
      if (c == '"') {
        ++offset_;
        return OkStatus();
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Fault(
            fmt::format("the control character {} in a string", Quoted(std::string_view(&c, 1))));
      }
      if (c == '\\') {
        LS_TRY(Escape(value));
        continue;
      }
      const size_t length = Utf8Length(text_.substr(offset_));
      if (length == 0) {
        return Fault("bytes that are not UTF-8");
      }
      value.append(text_, offset_, length);
      offset_ += length;
    }
  }

  Status Escape(std::string& value) {
    const Position begin = Here();
    ++offset_;
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const size_t which = AtEnd() ? std::string_view::npos : kLetters.find(Peek());
    if (which != std::string_view::npos) {
      value += kValues[which];
      ++offset_;
      return OkStatus();
    }
    uint32_t unit = 0;
    if (!Take('u') || !HexUnit(unit)) {
      return FaultAt(document_, begin, "an escape that JSON does not know");
    }
    if (unit >= 0xDC00 && unit <= 0xDFFF) {
      return FaultAt(document_, begin, "half of a surrogate pair");
    }
    if (unit >= 0xD800 && unit <= 0xDBFF) {
      uint32_t low = 0;
      if (!Take('\\') || !Take('u') || !HexUnit(low) || low < 0xDC00 || low > 0xDFFF) {
        return FaultAt(document_, begin, "half of a surrogate pair");
      }
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(unit, value);
    return OkStatus();
  }

  bool HexUnit(uint32_t& unit) {
    const std::string_view digits = text_.substr(offset_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) {
      return false;
    }
    offset_ += 4;
    return true;
  }

  Status Array(Node& node, int depth) {
    ++offset_;
    SkipSpace();
    if (Take(']')) {
      return OkStatus();
    }
    while (true) {
      LS_TRY(Value(node.items.emplace_back(), depth + 1));
      SkipSpace();
      if (Take(']')) {
        return OkStatus();
      }
      if (!Take(',')) {
        return Expected("',' or ']'");
      }
    }
  }

  Status Object(Node& node, int depth) {
    ++offset_;
    SkipSpace();
    if (Take('}')) {
      return OkStatus();
    }
    std::map<std::string, Position> seen;
    while (true) {
      SkipSpace();
      Member& member = node.members.emplace_back();
      member.at = Here();
      if (AtEnd() || Peek() != '"') {
        return Expected("a key in double quotes");
      }
      LS_TRY(String(member.key));
      const auto [first, is_new] = seen.emplace(member.key, member.at);
      if (!is_new) {
        return FaultAt(
            document_, member.at,
            fmt::format("the key {} is repeated; it stands at line {}, column {} already",
                        Quoted(member.key), first->second.line, first->second.column));
      }
      SkipSpace();
      if (!Take(':')) {
        return Expected("':' after the key");
      }
      LS_TRY(Value(member.value, depth + 1));
      SkipSpace();
      if (Take('}')) {
        return OkStatus();
      }
      if (!Take(',')) {
        return Expected("',' or '}'");
      }
    }
  }

  std::string_view text_;
  const Document& document_;
  size_t offset_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
};

}  // namespace

const Node* Node::Find(std::string_view key) const {
  const auto it = std::find_if(members.begin(), members.end(),
                               [key](const Member& member) { return member.key == key; });
  return it == members.end() ? nullptr : &it->value;
}

Result<Node> ParseJson(std::string_view text, const Document& document) {
  return JsonParser(text, document).Run();
}

Status FaultAt(const Document& document, const Position& at, std::string_view message) {
  if (document.is_file) {
    return InvalidArgument(fmt::format("{}:{}:{}: {}", document.name, at.line, at.column, message));
  }
  return InvalidArgument(fmt::format("{}: line {}, column {} (byte {}): {}", document.name, at.line,
                                     at.column, at.offset, message));
}

std::string_view KindName(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return "a boolean";
    case Node::Kind::kNumber:
      return "a number";
    case Node::Kind::kString:
      return "a string";
    case Node::Kind::kArray:
      return "a list";
    case Node::Kind::kObject:
      return "an object";
  }
  return "";
}

std::string Found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kString:
      return fmt::format("the string {}", Quoted(node.text));
    case Node::Kind::kNumber:
      return fmt::format("the number {}", EscapeControls(node.text.substr(0, 40)));
    default:
      return std::string(KindName(node.kind));
  }
}

bool WholeNumber(std::string_view text, int64_t max, int64_t& value) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit) ||
      (text.size() > 1 && text[0] == '0')) {
    return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value <= max;
}

}  // namespace lockstep::cluster::internal
