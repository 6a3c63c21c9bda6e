#include "lockstep/graph/graph_text.h"

#include <fmt/format.h>

#include "lockstep/base/quote.h"
#include "lockstep/graph/op_def.h"

namespace lockstep {
namespace {

std::string NodeToText(const Node& node) {
  std::vector<std::string> inputs;
  for (const Value& input : node.inputs) {
    inputs.push_back(input.name());
  }
  for (const Node* control : node.control_inputs) {
    inputs.push_back("^" + control->name);
  }
  std::string text = fmt::format("{} = {}({})", node.name, node.op->name, fmt::join(inputs, ", "));
  if (node.attrs.size() > 0) {
    std::vector<std::string> attrs;
    for (const auto& [name, value] : node.attrs) {
      attrs.push_back(fmt::format("{}: {}", name, AttrToString(value)));
    }
    text += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
  }
  if (!node.device.empty()) {
    text += fmt::format(" @{}", node.device);
  }
  if (!node.colocate_with.empty()) {
    text += fmt::format(" @node:{}", node.colocate_with);
  }
  if (!node.outputs.empty()) {
    std::vector<std::string> outputs;
    for (const TensorType& output : node.outputs) {
      outputs.push_back(output.ToString());
    }
    text += fmt::format(" -> {}", fmt::join(outputs, ", "));
  }
  if (!node.file.empty()) {
    text += fmt::format("  # {}:{}", node.file, node.line);
  }
  return EscapeControls(text);
}

}  // namespace

std::string GraphToText(const Graph& graph) {
  std::string text;
  for (const auto& node : graph.nodes()) {
    text += NodeToText(*node) + "\n";
  }
  for (const auto& [name, values] : graph.collections()) {
    std::vector<std::string> members;
    for (const Value& value : values) {
      members.push_back(value.name());
    }
    text += fmt::format("collection {} = {}\n", EscapeControls(name), fmt::join(members, ", "));
  }
  return text;
}

}  // namespace lockstep
