#include "lockstep/pass/partial_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/pass/specialize.h"

namespace lockstep::pass {
namespace {

template <class T>
bool Contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

template <class T>
Status CheckOnce(const std::vector<T>& list, const T& item, const std::string& what,
                 const std::string& name) {
  return std::count(list.begin(), list.end(), item) > 1
             ? InvalidArgument(fmt::format("{} {} twice", name, what))
             : OkStatus();
}

bool InGraph(const Graph& graph, const Node* node) {
  if (node == nullptr || node->id < 0) {
    return false;
  }
  const auto id = static_cast<size_t>(node->id);
  return id < graph.nodes().size() && graph.nodes()[id].get() == node;
}

}  // namespace

Result<PartialStep> PartialStep::Create(const Graph& graph, std::vector<Value> feeds,
                                        std::vector<Value> fetches, std::vector<Node*> targets) {
  PartialStep step(graph);
  for (const std::vector<Value>* list : {&feeds, &fetches}) {
    for (const Value& value : *list) {
      if (!InGraph(graph, value.node)) {
        return InvalidArgument("a feed or fetch is no value of this graph");
      }
      LS_TRY(CheckOnce(*list, value, list == &feeds ? "is fed" : "is fetched", value.name()));
      (list == &feeds ? step.all_feeds_ : step.all_fetches_).insert(value);
    }
  }
  for (Node* target : targets) {
    if (!InGraph(graph, target)) {
      return InvalidArgument("a target is no node of this graph");
    }
    LS_TRY(CheckOnce(targets, target, "is a target", target->name));
    step.all_targets_.insert(target);
  }
  // With all feeds everything can run.
  const Values all(feeds.begin(), feeds.end());
  LS_TRY(step.CheckFed(step.WalkBack(fetches, targets, all), all));
  step.feeds_ = std::move(feeds);
  step.fetches_ = std::move(fetches);
  step.targets_ = std::move(targets);
  return step;
}

PartialStep::Walk PartialStep::WalkBack(const std::vector<Value>& fetches,
                                        const std::vector<Node*>& targets,
                                        const Values& known) const {
  Walk walk{std::vector<bool>(done_.size(), false), {}};
  Values met;
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    const auto id = static_cast<size_t>(node->id);
    const bool placeholder =
        known.count({const_cast<Node*>(node), 0}) > 0 && node->op->name == "Placeholder";
    if (!walk.needed[id] && !done_[id] && !placeholder) {
      walk.needed[id] = true;
      stack.push_back(node);
    }
  };
  const auto visit_value = [&](Value value) {
    if (known.count(value) == 0 && Done(*value.node) && value.type().is_variable) {
      value = WrittenVariable(value);
    }
    if (known.count(value) == 0) {
      visit(value.node);
    } else if (met.insert(value).second) {
      walk.met.push_back(value);
    }
  };
  std::for_each(fetches.begin(), fetches.end(), visit_value);
  std::for_each(targets.begin(), targets.end(), visit);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    std::for_each(node->inputs.begin(), node->inputs.end(), visit_value);
    std::for_each(node->control_inputs.begin(), node->control_inputs.end(), visit);
  }
  return walk;
}

Status PartialStep::CheckFed(const Walk& walk, const Values& known) const {
  // The graph may have grown since.
  const auto nodes = graph_->nodes().first(done_.size());
  for (const auto& node : nodes) {
    if (!walk.needed[static_cast<size_t>(node->id)]) {
      continue;
    }
    for (const Value& input : node->inputs) {
      if (known.count(input) == 0 && Contains(feeds_, input)) {
        return InvalidArgument(fmt::format("{} needs the feed of {}, which was not given yet",
                                           node->Describe(), input.name()));
      }
    }
  }
  for (const auto& node : nodes) {
    if (walk.needed[static_cast<size_t>(node->id)] && node->op->name == "Placeholder") {
      return InvalidArgument(fmt::format("{} must be fed before: it is {}", node->Describe(),
                                         node->outputs[0].ToString()));
    }
  }
  return OkStatus();
}

Status PartialStep::CheckFeeds(const FeedList& feeds) const {
  std::vector<Value> values;
  for (const auto& [value, tensor] : feeds) {
    if (!value.valid() || !Contains(feeds_, value)) {
      return InvalidArgument(fmt::format(
          "{} {}", value.valid() ? value.name() : "an invalid value",
          all_feeds_.count(value) > 0 ? "was fed before" : "is no feed of this partial run"));
    }
    if (!tensor.has_value() || tensor.dtype() != value.dtype() ||
        !tensor.shape().CompatibleWith(value.shape())) {
      return InvalidArgument(fmt::format(
          "the feed of {} is {}, expected {}", value.node->Describe(),
          tensor.has_value()
              ? fmt::format("{} {}", DTypeName(tensor.dtype()), tensor.shape().ToString())
              : std::string("no tensor"),
          value.type().ToString()));
    }
    values.push_back(value);
  }
  for (const Value& value : values) {
    LS_TRY(CheckOnce(values, value, "is fed", value.name()));
  }
  return OkStatus();
}

Result<PartialStep::Part> PartialStep::Prepare(const FeedList& feeds,
                                               const std::vector<Value>& fetches,
                                               const std::vector<Node*>& targets) const {
  LS_TRY(CheckFeeds(feeds));
  for (const Value& fetch : fetches) {
    if (!fetch.valid() || !Contains(fetches_, fetch)) {
      return InvalidArgument(fmt::format("{} {}", fetch.valid() ? fetch.name() : "an invalid value",
                                         all_fetches_.count(fetch) > 0
                                             ? "was fetched before"
                                             : "is no fetch of this partial run"));
    }
    LS_TRY(CheckOnce(fetches, fetch, "is fetched", fetch.name()));
  }
  for (Node* const target : targets) {
    if (!Contains(targets_, target)) {
      return InvalidArgument(fmt::format(
          "{} {}", target == nullptr ? "an invalid node" : target->name,
          all_targets_.count(target) > 0 ? "has run before" : "is no target of this partial run"));
    }
    LS_TRY(CheckOnce(targets, target, "is a target", target->name));
  }
  Part part;
  part.fed = feeds;
  part.fetches = fetches;
  part.num_asked = fetches.size();
  part.targets = targets;
  Values known;
  for (const auto& [value, tensor] : kept_) {
    known.insert(value);
  }
  for (const auto& [value, tensor] : feeds) {
    known.insert(value);
  }
  const Walk walk = WalkBack(fetches, targets, known);
  LS_TRY(CheckFed(walk, known));
  for (const Value& value : fetches) {
    if (known.count(value) == 0 && Contains(feeds_, value)) {
      return InvalidArgument(fmt::format("{} is fetched before its feed was given", value.name()));
    }
  }
  for (const Value& value : walk.met) {
    const auto kept = kept_.find(value);
    const auto given = std::find_if(feeds.begin(), feeds.end(),
                                    [&](const auto& feed) { return feed.first == value; });
    part.feeds.push_back(value);
    part.tensors.push_back(kept != kept_.end() ? kept->second : given->second);
  }
  // What is left to run after this part, and what of this part it consumes.
  Values all = known;
  all.insert(feeds_.begin(), feeds_.end());
  const Walk rest = WalkBack(fetches_, targets_, all);
  Values kept(fetches.begin(), fetches.end());
  const auto keep = [&](const Value& value) {
    const bool made_here = walk.needed[static_cast<size_t>(value.node->id)];
    if (made_here && !value.type().is_variable && all.count(value) == 0 &&
        kept.insert(value).second) {
      part.fetches.push_back(value);
    }
  };
  for (const auto& node : graph_->nodes().first(done_.size())) {
    const auto id = static_cast<size_t>(node->id);
    if (done_[id]) {
      part.done.push_back(node.get());
    }
    // A variable is declared by every part that uses it.
    const bool variable =
        !node->op->writes_variables() && !node->outputs.empty() && node->outputs[0].is_variable;
    if (walk.needed[id] && !variable) {
      part.runs.push_back(node.get());
    }
    if (rest.needed[id] && !walk.needed[id]) {
      std::for_each(node->inputs.begin(), node->inputs.end(), keep);
    }
  }
  for (const Value& value : fetches_) {
    keep(value);
  }
  return part;
}

std::vector<Tensor> PartialStep::Finish(const Part& part, std::vector<Tensor> results) {
  for (const auto& [value, tensor] : part.fed) {
    kept_[value] = tensor;
    std::erase(feeds_, value);
  }
  for (size_t i = 0; i < results.size() && i < part.fetches.size(); ++i) {
    if (!part.fetches[i].type().is_variable) {
      kept_[part.fetches[i]] = results[i];
    }
  }
  for (const Node* node : part.runs) {
    done_[static_cast<size_t>(node->id)] = true;
  }
  for (size_t i = 0; i < part.num_asked; ++i) {
    std::erase(fetches_, part.fetches[i]);
  }
  for (Node* const target : part.targets) {
    std::erase(targets_, target);
  }
  results.resize(std::min(results.size(), part.num_asked));
  return results;
}

std::string PartialStep::Missing() const {
  std::vector<std::string> names;
  for (const Value& value : fetches_) {
    names.push_back(value.name());
  }
  std::string text = names.empty() ? "" : fmt::format("fetches {}", fmt::join(names, ", "));
  names.clear();
  for (const Node* node : targets_) {
    names.push_back(node->name);
  }
  return names.empty() ? text
                       : fmt::format("{}{}targets {}", text, text.empty() ? "" : "; ",
                                     fmt::join(names, ", "));
}

}  // namespace lockstep::pass
