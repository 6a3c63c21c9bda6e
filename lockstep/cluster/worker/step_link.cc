#include "lockstep/cluster/worker/step_link.h"

#include <vector>

namespace lockstep::cluster {

StepLink::~StepLink() {
  const MutexLock lock(mu_);
  while (sending_ > 0) {
    // Each send ends by its deadline.
    idle_.WaitUntil(mu_, Deadline::Infinite());
  }
}

void StepLink::Send(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& tensor,
                    SendDone done) {
  if (peer == exec::kThisTask) {
    local_.Send(peer, key, tensor, std::move(done));
    return;
  }
  uint64_t id = 0;
  Status aborted;
  {
    const MutexLock lock(mu_);
    aborted = aborted_;
    if (aborted.ok()) {
      id = next_++;
      ++sending_;
      pending_.emplace(id, nullptr);
    }
  }
  if (!aborted.ok()) {
    done(aborted);
    return;
  }
  std::shared_ptr<TensorSender::Pending> pending = sender_.Send(
      peer, key, tensor, deadline_, [this, id, done = std::move(done)](const Status& status) {
        Status result = status;
        {
          const MutexLock lock(mu_);
          pending_.erase(id);
          // Why it was cancelled says more than that it was.
          if (!status.ok() && !aborted_.ok()) {
            result = aborted_;
          }
        }
        done(result);
        const MutexLock lock(mu_);
        --sending_;
        idle_.NotifyAll();
      });
  bool cancel = false;
  {
    const MutexLock lock(mu_);
    const auto found = pending_.find(id);
    if (found != pending_.end()) {
      found->second = pending;
      cancel = !aborted_.ok();
    }
  }
  if (cancel) {
    pending->Cancel();
  }
}

void StepLink::Recv(exec::PeerNumber /*peer*/, const exec::TransferKey& key, const Tensor& into,
                    RecvDone done) {
  local_.Recv(exec::kThisTask, key, into, std::move(done));
}

void StepLink::Abort(uint64_t scope, uint64_t step, const Status& status) {
  std::vector<std::shared_ptr<TensorSender::Pending>> pending;
  {
    const MutexLock lock(mu_);
    if (aborted_.ok()) {
      aborted_ = status;
    }
    for (const auto& [id, sent] : pending_) {
      if (sent != nullptr) {
        pending.push_back(sent);
      }
    }
  }
  for (const auto& sent : pending) {
    sent->Cancel();
  }
  local_.Abort(scope, step, status);
}

void StepLink::Cleanup(uint64_t scope, uint64_t step) {
  local_.Cleanup(scope, step);
}

}  // namespace lockstep::cluster
