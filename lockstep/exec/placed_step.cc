#include "lockstep/exec/placed_step.h"

#include <fmt/format.h>

#include "lockstep/exec/internal/plan_transfers.h"
#include "lockstep/exec/internal/step_threads.h"
#include "lockstep/exec/step_status.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/rewrite.h"

namespace lockstep::exec {

struct PlacedStep::PartPlan {
  // As it was given: a variable that moves makes a plan useless.
  DevicePart source;
  std::unique_ptr<Plan> plan;
  std::vector<Tensor> feeds;
  std::vector<Tensor> fetches;
  // Runs the part on a thread of its own.
  std::function<void()> start;
};

// The run under way.
struct PlacedStep::Running {
  const StepInfo* info = nullptr;
  const StepRun* run = nullptr;
  StepStatus status;
  Mutex mu;
  CondVar finished;
  size_t parts LS_GUARDED_BY(mu) = 0;
};

PlacedStep::PlacedStep(Token, std::vector<DevicePart> parts, VariableStore& store,
                       StepThreads& threads, PeerResolver peers)
    : store_(store),
      threads_(threads),
      peers_(std::move(peers)),
      running_(std::make_unique<Running>()) {
  for (DevicePart& part : parts) {
    parts_.push_back(std::make_unique<PartPlan>());
    PartPlan& made = *parts_.back();
    made.source = std::move(part);
    made.start = [this, &made] { RunPart(made); };
  }
}

PlacedStep::~PlacedStep() = default;

Result<std::unique_ptr<PlacedStep>> PlacedStep::Compile(std::vector<DevicePart> parts,
                                                        VariableStore& store, StepThreads& threads,
                                                        const PeerResolver& peers) {
  auto step = std::make_unique<PlacedStep>(Token(), std::move(parts), store, threads, peers);
  for (const auto& part : step->parts_) {
    LS_TRY(step->CompilePart(*part).With(part->source.part.device));
  }
  return step;
}

Status PlacedStep::CompilePart(PartPlan& part) {
  // A rewrite that replaces nothing is a copy.
  LS_ASSIGN_OR_RETURN(pass::SpecializedGraph graph, pass::Rewriter().Apply(part.source.part.graph));
  LS_ASSIGN_OR_RETURN(graph, pass::Fuse(std::move(graph)));
  const MutexLock lock(store_.settle_mutex());
  LS_ASSIGN_OR_RETURN(part.plan, Plan::Compile(std::move(graph), store_, *part.source.device));
  return peers_ == nullptr ? OkStatus() : part.plan->ResolvePeers(peers_);
}

Status PlacedStep::CheckFeeds(const PartPlan& part, std::span<const Tensor> feeds) const {
  for (size_t i = 0; i < part.source.part.feeds.size(); ++i) {
    const auto position = static_cast<size_t>(part.source.part.feeds[i]);
    const Value& value = part.source.part.graph.feeds[i];
    if (position >= feeds.size() || !feeds[position].has_value()) {
      return InvalidArgument(
          fmt::format("there is no feed {} for {}", position, value.node->Describe()));
    }
    const Tensor& feed = feeds[position];
    if (feed.dtype() != value.dtype() || !(feed.shape() == value.shape())) {
      return InvalidArgument(fmt::format("the feed of {} is {} {}, expected {}",
                                         value.node->Describe(), DTypeName(feed.dtype()),
                                         feed.shape().ToString(), value.type().ToString()));
    }
  }
  return OkStatus();
}

void PlacedStep::RunPart(PartPlan& part) {
  Running& running = *running_;
  const StepRun& run = *running.run;
  const TransferContext transfers{run.rendezvous, run.scope, run.step, run.deadline,
                                  run.cancellation};
  Status status = part.plan->Run(part.feeds, part.fetches, *running.info, /*profile=*/nullptr,
                                 /*on_fetched=*/nullptr, &transfers);
  if (!status.ok()) {
    status = IsDerived(status) ? status : status.With(part.source.part.device);
    running.status.Add(status);
    run.rendezvous->Abort(run.scope, run.step, StoppedBecauseOf(status));
  }
  const MutexLock lock(running.mu);
  if (--running.parts == 0) {
    running.finished.NotifyAll();
  }
}

Status PlacedStep::Run(std::span<const Tensor> feeds, std::span<Tensor> fetches,
                       const StepInfo& info, const StepRun& run) {
  for (const auto& part : parts_) {
    LS_TRY(CheckFeeds(*part, feeds));
    if (part->plan->Outdated()) {
      LS_TRY(CompilePart(*part).With(part->source.part.device));
    }
  }
  if (parts_.empty()) {
    return OkStatus();
  }
  running_->info = &info;
  running_->run = &run;
  {
    const MutexLock lock(running_->mu);
    running_->parts = parts_.size();
  }
  for (const auto& part : parts_) {
    for (const int position : part->source.part.feeds) {
      part->feeds.push_back(feeds[static_cast<size_t>(position)]);
    }
    for (const int position : part->source.part.fetches) {
      part->fetches.push_back(std::move(fetches[static_cast<size_t>(position)]));
    }
  }
  int64_t callback = 0;
  if (run.cancellation != nullptr) {
    callback = run.cancellation->AddCallback(
        [&run](const Status& status) { run.rendezvous->Abort(run.scope, run.step, status); });
  }
  for (size_t i = 1; i < parts_.size(); ++i) {
    const Status started = threads_.Start(parts_[i]->start);
    if (!started.ok()) {
      running_->status.Add(started);
      run.rendezvous->Abort(run.scope, run.step, StoppedBecauseOf(started));
      const MutexLock lock(running_->mu);
      --running_->parts;
    }
  }
  RunPart(*parts_[0]);
  {
    const MutexLock lock(running_->mu);
    while (running_->parts > 0) {
      running_->finished.WaitUntil(running_->mu, Deadline::Infinite());
    }
  }
  if (run.cancellation != nullptr) {
    run.cancellation->RemoveCallback(callback);
  }
  for (const auto& part : parts_) {
    for (size_t i = 0; i < part->fetches.size(); ++i) {
      fetches[static_cast<size_t>(part->source.part.fetches[i])] = std::move(part->fetches[i]);
    }
    part->feeds.clear();
    part->fetches.clear();
  }
  return running_->status.Take();
}

size_t PlacedStep::num_feeds() const {
  size_t count = 0;
  for (const auto& part : parts_) {
    count += part->source.part.feeds.size();
  }
  return count;
}

size_t PlacedStep::num_fetches() const {
  size_t count = 0;
  for (const auto& part : parts_) {
    count += part->source.part.fetches.size();
  }
  return count;
}

std::string PlacedStep::ToString() const {
  std::string text;
  for (const auto& part : parts_) {
    text += fmt::format("{}\n{}", part->source.part.device, part->plan->ToString());
  }
  return text;
}

}  // namespace lockstep::exec
