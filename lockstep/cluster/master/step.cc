#include "lockstep/cluster/master/step.h"

#include "lockstep/exec/step_status.h"

namespace lockstep::cluster {

struct RunningSteps::Step {
  Step(const WorkerRun& the_run, const std::vector<TaskShare>& the_shares, size_t num_fetches)
      : run(the_run),
        shares(the_shares),
        remaining(the_shares.size()),
        fetches(num_fetches),
        give_ups(the_shares.size()),
        given_up(the_shares.size(), false) {}

  // The first error stops everybody.
  void Fail(const Status& why) {
    status.Add(why);
    {
      const MutexLock lock(mu);
      if (stopped) {
        return;
      }
      stopped = true;
    }
    for (const TaskShare& share : shares) {
      share.stub->CleanupGraph(run.scope, run.step, exec::StoppedBecauseOf(why));
    }
  }

  void GiveUp(size_t share) {
    std::function<void()> give_up;
    {
      const MutexLock lock(mu);
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

  void OnDone(const TaskShare& share, Result<std::vector<Tensor>> result) {
    if (result.ok() && result->size() != share.fetches.size()) {
      result = Internal("a task gave another number of fetches than was asked for");
    }
    if (!result.ok()) {
      Fail(result.status());
    }
    const MutexLock lock(mu);
    if (result.ok()) {
      for (size_t i = 0; i < share.fetches.size(); ++i) {
        fetches[static_cast<size_t>(share.fetches[i])] = std::move((*result)[i]);
      }
    }
    --remaining;
    ended.NotifyAll();
  }

  const WorkerRun run;
  const std::vector<TaskShare> shares;
  exec::StepStatus status;
  Mutex mu;
  CondVar ended;
  bool stopped LS_GUARDED_BY(mu) = false;
  size_t remaining LS_GUARDED_BY(mu);
  std::vector<Tensor> fetches LS_GUARDED_BY(mu);
  std::vector<std::function<void()>> give_ups LS_GUARDED_BY(mu);
  std::vector<bool> given_up LS_GUARDED_BY(mu);
};

Result<std::vector<Tensor>> RunningSteps::Run(const WorkerRun& run,
                                              const std::vector<TaskShare>& shares,
                                              const std::vector<Tensor>& feeds,
                                              size_t num_fetches) {
  const auto step = std::make_shared<Step>(run, shares, num_fetches);
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
  for (size_t i = 0; i < step->shares.size(); ++i) {
    const TaskShare& share = step->shares[i];
    std::vector<Tensor> task_feeds;
    for (const int position : share.feeds) {
      task_feeds.push_back(feeds[static_cast<size_t>(position)]);
    }
    step->SetGiveUp(i, share.stub->RunGraph(run, task_feeds,
                                            [step, &share](Result<std::vector<Tensor>> result) {
                                              step->OnDone(share, std::move(result));
                                            }));
  }
  {
    const MutexLock lock(step->mu);
    while (step->remaining > 0) {
      // Every run ends by the step's deadline, and the calls shortly after.
      step->ended.WaitUntil(step->mu, Deadline::Infinite());
    }
  }
  {
    const MutexLock lock(mu_);
    steps_.erase(step);
  }
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
