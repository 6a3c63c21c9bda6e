#include "lockstep/net/internal/self_link.h"

#include <cstring>
#include <utility>

namespace lockstep::net::internal {

Status SelfLink::Start() {
  reactor_.AddPoller(this);
  return OkStatus();
}

void SelfLink::SendFrame(const Frame& frame, std::span<const std::byte> body) {
  {
    MutexLock lock(mu_);
    Job job;
    job.frame = frame;
    job.body.assign(body.begin(), body.end());
    jobs_.push_back(std::move(job));
  }
  reactor_.Wake();
}

void SelfLink::Offer(Frame* announce, const void* payload) {
  MutexLock lock(mu_);
  offers_[announce->transfer] = payload;
}

void SelfLink::EndOffer(uint64_t transfer) {
  MutexLock lock(mu_);
  offers_.erase(transfer);
}

void SelfLink::Push(uint64_t, const void*, uint64_t, MoveDone) {
  LS_CHECK(false);  // nobody sends kPull
}

void SelfLink::Pull(const Frame& announce, void* target, MoveDone done) {
  {
    MutexLock lock(mu_);
    Job job;
    job.frame = announce;
    job.target = target;
    job.done = std::move(done);
    jobs_.push_back(std::move(job));
  }
  reactor_.Wake();
}

bool SelfLink::CancelPull(uint64_t transfer) {
  MutexLock lock(mu_);
  std::erase_if(jobs_, [transfer](const Job& job) {
    return job.done != nullptr && job.frame.transfer == transfer;
  });
  return true;
}

bool SelfLink::Poll() {
  Job job;
  Status moved;
  {
    MutexLock lock(mu_);
    if (jobs_.empty()) {
      return false;
    }
    job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job.done != nullptr) {
      // With the lock, so that a buffer is not touched after its operation ended.
      const auto found = offers_.find(job.frame.transfer);
      if (found == offers_.end()) {
        moved = Aborted("it is no longer offered");
      } else if (job.frame.header.bytes > 0) {
        std::memcpy(job.target, found->second, job.frame.header.bytes);
      }
    }
  }
  if (job.done != nullptr) {
    job.done(moved);
    if (moved.ok()) {
      Frame fetched;
      fetched.type = FrameType::kDone;
      fetched.transfer = job.frame.transfer;
      LS_CHECK(sink_.OnFrame(fetched, {}).ok());
    }
  } else {
    const Status status = sink_.OnFrame(job.frame, job.body);
    if (!status.ok()) {
      sink_.OnDown(status);
    }
  }
  return true;
}

bool SelfLink::PrepareSleep() {
  MutexLock lock(mu_);
  return jobs_.empty();
}

void SelfLink::Close() {
  reactor_.RemovePoller(this);
  MutexLock lock(mu_);
  jobs_.clear();
  offers_.clear();
}

}  // namespace lockstep::net::internal
