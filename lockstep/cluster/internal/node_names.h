// Values and nodes of a graph by name, as signatures have them on the wire.
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/node.h"

namespace lockstep::cluster::internal {

// "name", or "name:1" of another output than the first.
template <class Values>
std::vector<std::string> NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const Value& value : values) {
    names.push_back(value.name());
  }
  return names;
}

inline std::vector<std::string> NamesOf(const std::vector<Node*>& nodes) {
  std::vector<std::string> names;
  for (const Node* node : nodes) {
    names.push_back(node->name);
  }
  return names;
}

}  // namespace lockstep::cluster::internal
