#include "lockstep/cluster/internal/toml_document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

namespace lockstep::cluster::internal {
namespace {

constexpr int kMaxDepth = 32;

Position At(const toml::source_region& source) {
  return {source.begin.line, source.begin.column, Position::kUnknown};
}

Status Convert(const toml::node& from, const Document& document, int depth, Node& to) {
  to.at = At(from.source());
  if (depth > kMaxDepth) {
    return FaultAt(document, to.at, fmt::format("nested more than {} levels deep", kMaxDepth));
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

}  // namespace

Result<Node> ParseToml(std::string_view text, const Document& document) {
  if (text.size() > kMaxDocumentBytes) {
    return FaultAt(document, {},
                   fmt::format("{} bytes are more than the {} that are allowed", text.size(),
                               kMaxDocumentBytes));
  }
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
