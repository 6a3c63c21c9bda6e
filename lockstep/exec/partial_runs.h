// PartialRuns: the partial runs of a session that are under way. Between their parts they hold
// tensors and nothing else, so one that is never finished costs memory until its deadline has
// passed or the session ends. Thread-safe; parts of one run exclude each other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/pass/partial_step.h"

namespace lockstep::exec {

class PartialRuns {
 public:
  // Runs a part: one tensor for each of its fetches. `number` is that of the step, the same for all
  // of its parts.
  using Execute = std::function<Result<std::vector<Tensor>>(
      const pass::PartialStep::Part& part, int64_t number, const Deadline& deadline)>;

  // `graph` is kept while the run is; may be null. RESOURCE_EXHAUSTED beyond 1000 runs.
  Result<uint64_t> Begin(pass::PartialStep step, int64_t number, const Deadline& deadline,
                         std::shared_ptr<const void> graph = nullptr) LS_EXCLUDES(mu_);

  // The errors are those of exec::Session::PartialRun.
  Result<std::vector<Tensor>> Continue(uint64_t run, const pass::PartialStep::FeedList& feeds,
                                       const std::vector<Value>& fetches,
                                       const std::vector<Node*>& targets, const Execute& execute)
      LS_EXCLUDES(mu_);

  // Forgets all: those that run a part finish it, and end.
  void Clear() LS_EXCLUDES(mu_);

  size_t size() const LS_EXCLUDES(mu_);

 private:
  struct Run {
    Run(pass::PartialStep the_step, int64_t the_number, const Deadline& the_deadline,
        std::shared_ptr<const void> the_graph)
        : graph(std::move(the_graph)),
          number(the_number),
          deadline(the_deadline),
          step(std::move(the_step)) {}

    const std::shared_ptr<const void> graph;
    const int64_t number;
    const Deadline deadline;
    Mutex mu;
    bool ended LS_GUARDED_BY(mu) = false;
    pass::PartialStep step LS_GUARDED_BY(mu);
  };

  void Forget(uint64_t run) LS_EXCLUDES(mu_);

  mutable Mutex mu_;
  uint64_t next_ LS_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<Run>> runs_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
