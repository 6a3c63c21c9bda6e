#include "lockstep/graph/internal/topological_sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "lockstep/base/macros.h"

namespace lockstep::internal {
namespace {

// Every position that still waits has a predecessor that does: walking back must close a cycle.
std::vector<int> FindCycle(std::span<const std::vector<int>> predecessors,
                           const std::vector<size_t>& waiting) {
  const auto waits = [&](int i) { return waiting[static_cast<size_t>(i)] > 0; };
  std::vector<bool> visited(predecessors.size(), false);
  std::vector<int> path;
  const auto first = std::find_if(waiting.begin(), waiting.end(), [](size_t n) { return n > 0; });
  auto at = static_cast<int>(first - waiting.begin());
  while (!visited[static_cast<size_t>(at)]) {
    visited[static_cast<size_t>(at)] = true;
    path.push_back(at);
    const auto& before = predecessors[static_cast<size_t>(at)];
    const auto next = std::find_if(before.begin(), before.end(), waits);
    LS_CHECK(next != before.end());
    at = *next;
  }
  std::vector<int> cycle(std::find(path.begin(), path.end(), at), path.end());
  std::reverse(cycle.begin() + 1, cycle.end());
  return cycle;
}

}  // namespace

TopologicalSort SortTopologically(std::span<const std::vector<int>> predecessors) {
  const size_t count = predecessors.size();
  std::vector<size_t> waiting(count, 0);
  std::vector<std::vector<int>> consumers(count);
  for (size_t i = 0; i < count; ++i) {
    waiting[i] = predecessors[i].size();
    for (const int before : predecessors[i]) {
      consumers[static_cast<size_t>(before)].push_back(static_cast<int>(i));
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) {
      ready.push(static_cast<int>(i));
    }
  }
  TopologicalSort result;
  result.order.reserve(count);
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    result.order.push_back(i);
    for (const int consumer : consumers[static_cast<size_t>(i)]) {
      if (--waiting[static_cast<size_t>(consumer)] == 0) {
        ready.push(consumer);
      }
    }
  }
  if (result.order.size() < count) {
    result.cycle = FindCycle(predecessors, waiting);
  }
  return result;
}

std::string DescribeCycle(std::span<const int> cycle,
                          const std::function<std::string_view(int)>& name) {
  constexpr size_t kMaxShown = 16;
  std::string text;
  for (const int i : cycle.first(std::min(cycle.size(), kMaxShown))) {
    text += fmt::format("{} -> ", name(i));
  }
  if (cycle.size() > kMaxShown) {
    return text + fmt::format("... ({} nodes)", cycle.size());
  }
  return text + std::string(name(cycle.front()));
}

}  // namespace lockstep::internal
