#include "lockstep/graph/node.h"

#include <fmt/format.h>

#include "lockstep/graph/op_def.h"

namespace lockstep {

std::string TensorType::ToString() const {
  return fmt::format("{} {}{}", DTypeName(dtype), shape.ToString(), is_variable ? " variable" : "");
}

const TensorType& Value::type() const {
  LS_CHECK(node != nullptr && static_cast<size_t>(index) < node->outputs.size());
  return node->outputs[static_cast<size_t>(index)];
}

DType Value::dtype() const {
  return type().dtype;
}

const Shape& Value::shape() const {
  return type().shape;
}

std::string Value::name() const {
  return index == 0 ? node->name : fmt::format("{}:{}", node->name, index);
}

std::string Node::Describe() const {
  return fmt::format("op {} '{}'{}", op->name, name,
                     file.empty() ? "" : fmt::format(" ({}:{})", file, line));
}

}  // namespace lockstep
