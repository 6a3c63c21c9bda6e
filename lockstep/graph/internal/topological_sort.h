// Topological sorting of things that are known by their position, for graphs and for graph files
// whose nodes do not exist yet. Linear but for the queue; safe for any input size.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::internal {

struct TopologicalSort {
  // Every position after its predecessors, otherwise ascending. Incomplete if there is a cycle.
  std::vector<int> order;
  // Empty, or positions each of which is a predecessor of the next, and the last of the first.
  std::vector<int> cycle;
};

// `predecessors[i]` lists positions (in range, repetitions allowed) that must come before i.
TopologicalSort SortTopologically(std::span<const std::vector<int>> predecessors);

// "a -> b -> a"; of a long cycle only the first names and the number.
std::string DescribeCycle(std::span<const int> cycle,
                          const std::function<std::string_view(int)>& name);

}  // namespace lockstep::internal
