// Specialisation: cuts a graph down to what some fetches and targets need, and fixes every shape
// from the feeds. The result is a graph of its own, which further passes may rewrite freely.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep::pass {

struct Feed {
  Value value;  // any value of the graph, not only placeholders
  DType dtype = DType::kFloat32;
  Shape shape;
};

struct SpecializedGraph {
  std::unique_ptr<Graph> graph;
  // Placeholders in the order of the request; invalid if nothing needs the feed.
  std::vector<Value> feeds;
  std::vector<Value> fetches;
  std::vector<Node*> targets;  // without fed placeholders, where nothing is left to run
};

// `devices`, by id of the graph's nodes, are the devices of the copies; empty: those of the nodes.
// `done` have run before: nobody waits for them, what they returned of variables is read from the
// variables, and of their other values those that are needed must be fed.
// Errors: a placeholder that is needed and not fed, a feed of the wrong type or shape, a shape that
// stays unknown, a cycle. All name the op and its line.
Result<SpecializedGraph> Specialize(const Graph& graph, std::span<const Feed> feeds,
                                    std::span<const Value> fetches, std::span<Node* const> targets,
                                    std::span<const std::string> devices = {},
                                    std::span<Node* const> done = {});

// The variable whose value an op that writes variables has returned.
Value WrittenVariable(Value value);

}  // namespace lockstep::pass
