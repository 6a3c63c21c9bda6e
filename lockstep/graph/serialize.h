// Graphs as bytes (graph.proto): to be kept in files and sent between processes. Equal graphs give
// equal bytes. Reading treats its input as hostile: everything is checked against the limits and
// the op catalog before it is used, and a graph comes out whole or not at all. Errors name the
// node, its position in the input and the field. Pure functions, thread-safe.
//
//   LS_ASSIGN_OR_RETURN(const std::string bytes, SerializeGraph(graph));
//   LS_ASSIGN_OR_RETURN(std::unique_ptr<Graph> copy, ParseGraph(bytes, op::Catalog(), {}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep {

inline constexpr uint64_t kGraphFormatVersion = 1;

// Exceeding one is RESOURCE_EXHAUSTED. Memory in use while reading stays within a small multiple of
// the input plus what these allow.
struct ParseLimits {
  size_t max_bytes = size_t{256} << 20;
  size_t max_nodes = 200'000;
  // Inputs, control inputs and members of collections together.
  size_t max_edges = 2'000'000;
  // Elements of one tensor.
  size_t max_tensor_bytes = size_t{128} << 20;
  // Names of nodes, ops, devices, attributes and collections.
  size_t max_name_bytes = 1024;
  // String attributes and file names.
  size_t max_string_bytes = 4096;
  // Internal ops that are read all the same.
  std::vector<std::string_view> internal_ops = {};
};

// Nodes in order of creation, attributes (defaults included) and collections by name. What could
// not be read back is INVALID_ARGUMENT: an internal op, control characters in a string, a tensor
// attribute without a tensor; more than 2 GiB is RESOURCE_EXHAUSTED. `internal_ops` are written all
// the same.
Result<std::string> SerializeGraph(const Graph& graph,
                                   std::span<const std::string_view> internal_ops = {});

// The catalog must outlive the graph. Nodes are made in the order in which they stand in the input,
// except that a node waits for its inputs, so that a graph keeps its order. Malformed input is
// INVALID_ARGUMENT; an unknown op NOT_FOUND; a name given twice ALREADY_EXISTS.
Result<std::unique_ptr<Graph>> ParseGraph(std::string_view bytes, const OpCatalog& catalog,
                                          const ParseLimits& limits);

}  // namespace lockstep
