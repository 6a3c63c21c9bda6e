// A description of a cluster as text, whatever its format: a tree of values that know where they
// stand, so that every later complaint can say so. Two parsers build it, JSON (here) and TOML
// (toml_document.h). Both refuse repeated keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::cluster::internal {

// Far above 65536 tasks with long names, far below what hurts.
constexpr size_t kMaxDocumentBytes = size_t{16} << 20;
constexpr int kMaxDocumentDepth = 32;

// Whose text it is: an environment variable or flag ("TF_CONFIG"), or a file (its path).
struct Document {
  std::string name;
  bool is_file = false;
};

struct Position {
  // From 1; a column counts bytes.
  size_t line = 1;
  size_t column = 1;
  // From 0; unknown in TOML.
  static constexpr size_t kUnknown = SIZE_MAX;
  size_t offset = 0;
};

struct Member;

struct Node {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  Position at;
  // The value of a string, a number or bool as it is spelt.
  std::string text;
  std::vector<Node> items;
  // In order of appearance.
  std::vector<Member> members;

  // The value under the key, or null.
  const Node* Find(std::string_view key) const;
};

struct Member {
  std::string key;
  Position at;
  Node value;
};

// RFC 8259, nothing more: errors say what was found, what is expected, and where.
Result<Node> ParseJson(std::string_view text, const Document& document);

// INVALID_ARGUMENT "TF_CONFIG: line 1, column 5 (byte 4): message", "file.json:1:5: message".
Status FaultAt(const Document& document, const Position& at, std::string_view message);

// "a string", "an object".
std::string_view KindName(Node::Kind kind);

// The value for messages: quoted and cut, "an object" for what has parts.
std::string Found(const Node& node);

// A whole number of 0 to `max` without sign, fraction or exponent; false for anything else.
bool WholeNumber(std::string_view text, int64_t max, int64_t& value);

}  // namespace lockstep::cluster::internal
