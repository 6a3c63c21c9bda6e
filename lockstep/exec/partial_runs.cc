#include "lockstep/exec/partial_runs.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::exec {
namespace {

constexpr size_t kMaxRuns = 1000;

}  // namespace

Result<uint64_t> PartialRuns::Begin(pass::PartialStep step, int64_t number,
                                    const Deadline& deadline, std::shared_ptr<const void> graph) {
  auto run = std::make_shared<Run>(std::move(step), number, deadline, std::move(graph));
  const MutexLock lock(mu_);
  std::erase_if(runs_, [](const auto& entry) { return entry.second->deadline.expired(); });
  if (runs_.size() >= kMaxRuns) {
    return ResourceExhausted(
        fmt::format("{} partial runs are under way, none of them finished", runs_.size()));
  }
  runs_[next_] = std::move(run);
  return next_++;
}

Result<std::vector<Tensor>> PartialRuns::Continue(uint64_t run,
                                                  const pass::PartialStep::FeedList& feeds,
                                                  const std::vector<Value>& fetches,
                                                  const std::vector<Node*>& targets,
                                                  const Execute& execute) {
  std::shared_ptr<Run> found;
  {
    const MutexLock lock(mu_);
    const auto at = runs_.find(run);
    found = at == runs_.end() ? nullptr : at->second;
  }
  if (found == nullptr) {
    return Aborted(fmt::format(
        "partial run {} is not known: it has ended, or its session was closed or extended", run));
  }
  const MutexLock lock(found->mu);
  if (found->ended) {
    return Aborted(fmt::format("partial run {} has ended", run));
  }
  if (found->deadline.expired()) {
    found->ended = true;
    Forget(run);
    return DeadlineExceeded(
        fmt::format("partial run {} was not finished in time: never asked for were {}", run,
                    found->step.Missing()));
  }
  LS_ASSIGN_OR_RETURN(const pass::PartialStep::Part part,
                      found->step.Prepare(feeds, fetches, targets));
  Result<std::vector<Tensor>> results{std::vector<Tensor>()};
  if (!part.fetches.empty() || !part.targets.empty()) {
    results = execute(part, found->number, found->deadline);
  }
  if (!results.ok()) {
    found->ended = true;
    Forget(run);
    return results.status().With("a partial run, which ends with this");
  }
  std::vector<Tensor> asked = found->step.Finish(part, std::move(results).value());
  if (found->step.complete()) {
    found->ended = true;
    Forget(run);
  }
  return asked;
}

void PartialRuns::Forget(uint64_t run) {
  const MutexLock lock(mu_);
  runs_.erase(run);
}

void PartialRuns::Clear() {
  std::map<uint64_t, std::shared_ptr<Run>> ended;
  const MutexLock lock(mu_);
  ended.swap(runs_);
}

size_t PartialRuns::size() const {
  const MutexLock lock(mu_);
  return runs_.size();
}

}  // namespace lockstep::exec
