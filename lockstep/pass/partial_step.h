// PartialStep: one step whose feeds and fetches come in several parts. Each part runs what its
// fetches and targets need and has not run before, so every op runs once; what later parts need of
// it is kept. A variable is read by the part that needs its value, so it shows the updates of
// earlier parts. Not thread-safe.
//
//   LS_ASSIGN_OR_RETURN(PartialStep step, PartialStep::Create(graph, feeds, fetches, targets));
//   LS_ASSIGN_OR_RETURN(PartialStep::Part part, step.Prepare({{x, tensor}}, {y}, {}));
//   ... run part.feeds, part.fetches, part.targets without part.done ...
//   std::vector<Tensor> y = step.Finish(part, results);
//
// Errors are INVALID_ARGUMENT and name the value: one that was not announced, that was given or
// asked for before, or that needs a feed which has not been given. After one all is as it was.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/graph/graph.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::pass {

class PartialStep {
 public:
  using FeedList = std::vector<std::pair<Value, Tensor>>;

  struct Part {
    // What it needs of what was fed or kept.
    std::vector<Value> feeds;
    std::vector<Tensor> tensors;
    // Those that were asked for, and behind them those that are kept.
    std::vector<Value> fetches;
    size_t num_asked = 0;
    std::vector<Node*> targets;
    // Ran in the parts before.
    std::vector<Node*> done;

    // Of the step, once it has run.
    FeedList fed;
    std::vector<Node*> runs;
  };

  // The graph must outlive it. Everything that the step will be given and asked for.
  static Result<PartialStep> Create(const Graph& graph, std::vector<Value> feeds,
                                    std::vector<Value> fetches, std::vector<Node*> targets);

  Result<Part> Prepare(const FeedList& feeds, const std::vector<Value>& fetches,
                       const std::vector<Node*>& targets) const;

  // Of a part that has run: keeps what later ones need and returns what was asked for.
  std::vector<Tensor> Finish(const Part& part, std::vector<Tensor> results);

  // Whether everything was fetched and has run.
  bool complete() const { return fetches_.empty() && targets_.empty(); }

  // What was not asked for yet, for messages: "fetches y, z; targets train".
  std::string Missing() const;

 private:
  using Values = std::unordered_set<Value, ValueHash>;

  explicit PartialStep(const Graph& graph) : graph_(&graph), done_(graph.nodes().size(), false) {}

  // Nodes that these need and that have not run, walking back to `known` values.
  struct Walk {
    std::vector<bool> needed;
    std::vector<Value> met;  // of the known ones
  };

  Walk WalkBack(const std::vector<Value>& fetches, const std::vector<Node*>& targets,
                const Values& known) const;

  bool Done(const Node& node) const { return done_[static_cast<size_t>(node.id)]; }

  Status CheckFeeds(const FeedList& feeds) const;
  Status CheckFed(const Walk& walk, const Values& known) const;

  const Graph* graph_;
  // What is still to come.
  std::vector<Value> feeds_;
  std::vector<Value> fetches_;
  std::vector<Node*> targets_;
  // From the beginning: to tell those that came before from unknown ones.
  Values all_feeds_;
  Values all_fetches_;
  std::unordered_set<const Node*> all_targets_;
  std::vector<bool> done_;
  std::unordered_map<Value, Tensor, ValueHash> kept_;
};

}  // namespace lockstep::pass
