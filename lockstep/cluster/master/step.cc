#include "lockstep/cluster/master/step.h"

#include <atomic>

#include "lockstep/exec/step_status.h"

namespace lockstep::cluster {

struct RunningSteps::Step {
  Step(net::Progress& the_progress, const WorkerRun& the_run,
       const std::vector<TaskShare>& the_shares, size_t num_fetches)
      : progress(the_progress),
        run(the_run),
        shares(the_shares),
        remaining(static_cast<int32_t>(the_shares.size())),
        fetches(num_fetches),
        give_ups(the_shares.size()),
        given_up(the_shares.size(), false) {}

  // The first error stops everybody.
  void Fail(const Status& why) {
    status.Add(why);
    std::vector<std::shared_ptr<WorkerStub>> stubs;
    {
      const MutexLock lock(mu);
      if (stopped) {
        return;
      }
      stopped = true;
      for (const TaskShare& share : shares) {
        stubs.push_back(share.stub);
      }
    }
    for (const auto& stub : stubs) {
      stub->CleanupGraph(run.scope, run.step, exec::StoppedBecauseOf(why));
    }
  }

  void GiveUp(size_t share) {
    std::function<void()> give_up;
    {
      const MutexLock lock(mu);
      if (share >= shares.size()) {
        return;
      }
      given_up[share] = true;
      give_up = give_ups[share];
    }
    if (give_up) {
      give_up();
    }
  }

  void SetGiveUp(size_t share, std::function<void()> give_up) {
    bool now = false;
    {
      const MutexLock lock(mu);
      give_ups[share] = give_up;
      now = given_up[share];
    }
    if (now && give_up) {
      give_up();
    }
  }

  // `positions` are those of the task's fetches.
  void OnDone(const std::vector<int>& positions, Result<std::vector<Tensor>> result) {
    if (result.ok() && result->size() != positions.size()) {
      result = Internal("a task gave another number of fetches than was asked for");
    }
    if (!result.ok()) {
      Fail(result.status());
    } else {
      const MutexLock lock(mu);
      for (size_t i = 0; i < positions.size(); ++i) {
        fetches[static_cast<size_t>(positions[i])] = std::move((*result)[i]);
      }
    }
    if (remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      progress.Notify(remaining);
    }
  }

  // What callbacks that end late must not be the last to hold.
  void Release() {
    std::vector<TaskShare> held;
    std::vector<std::function<void()>> held_too;
    const MutexLock lock(mu);
    held.swap(shares);
    held_too.swap(give_ups);
  }

  net::Progress& progress;
  const WorkerRun run;
  exec::StepStatus status;
  Mutex mu;
  bool stopped LS_GUARDED_BY(mu) = false;
  std::vector<TaskShare> shares LS_GUARDED_BY(mu);
  std::atomic<int32_t> remaining;
  std::vector<Tensor> fetches LS_GUARDED_BY(mu);
  std::vector<std::function<void()>> give_ups LS_GUARDED_BY(mu);
  std::vector<bool> given_up LS_GUARDED_BY(mu);
};

Result<std::vector<Tensor>> RunningSteps::Run(const WorkerRun& run,
                                              const std::vector<TaskShare>& shares,
                                              const std::vector<Tensor>& feeds,
                                              size_t num_fetches) {
  const auto step = std::make_shared<Step>(progress_, run, shares, num_fetches);
  {
    const MutexLock lock(mu_);
    LS_TRY(closed_);
    for (const TaskShare& share : shares) {
      const auto lost = lost_.find(share.number);
      if (lost != lost_.end()) {
        return lost->second;
      }
    }
    steps_.insert(step);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const TaskShare& share = shares[i];
    std::vector<Tensor> task_feeds;
    for (const int position : share.feeds) {
      task_feeds.push_back(feeds[static_cast<size_t>(position)]);
    }
    step->SetGiveUp(i, share.stub->RunGraph(run, task_feeds,
                                            [step, &share](Result<std::vector<Tensor>> result) {
                                              step->OnDone(share.fetches, std::move(result));
                                            }));
  }
  // Every run ends by the step's deadline, or a few seconds later.
  progress_.Await(step->remaining);
  {
    const MutexLock lock(mu_);
    steps_.erase(step);
  }
  step->Release();
  LS_TRY(step->status.Get());
  const MutexLock lock(step->mu);
  return std::move(step->fetches);
}

void RunningSteps::SetLost(std::map<int, Status> lost) {
  struct Failed {
    std::shared_ptr<Step> step;
    size_t share;
    Status why;
  };

  std::vector<Failed> failed;
  {
    const MutexLock lock(mu_);
    lost_ = std::move(lost);
    for (const auto& step : steps_) {
      const MutexLock step_lock(step->mu);
      for (size_t i = 0; i < step->shares.size(); ++i) {
        const auto found = lost_.find(step->shares[i].number);
        if (found != lost_.end()) {
          failed.push_back({step, i, found->second});
        }
      }
    }
  }
  for (const Failed& failure : failed) {
    failure.step->Fail(failure.why);
    failure.step->GiveUp(failure.share);
  }
}

Status RunningSteps::LostStatus(int number) const {
  const MutexLock lock(mu_);
  const auto found = lost_.find(number);
  return found == lost_.end() ? OkStatus() : found->second;
}

void RunningSteps::Close(const Status& why) {
  std::set<std::shared_ptr<Step>> steps;
  {
    const MutexLock lock(mu_);
    closed_ = why;
    steps = steps_;
  }
  for (const auto& step : steps) {
    step->Fail(why);
  }
}

}  // namespace lockstep::cluster
