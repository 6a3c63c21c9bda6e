#include "lockstep/net/internal/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "lockstep/net/internal/engine_sink.h"

namespace lockstep::net::internal {
namespace {

// Late messages of this many ended steps are recognised.
constexpr size_t kMaxEndedSteps = 8192;

std::string DescribeMessage(const MessageKey& key, const std::string& peer) {
  return fmt::format("{}, {}", key.ToString(), peer);
}

}  // namespace

Engine::Engine(Progress& progress, PeerId self, std::vector<std::string> tasks)
    : progress_(progress), self_(self), tasks_(std::move(tasks)), peers_(tasks_.size()) {
  LS_CHECK(self >= 0 && static_cast<size_t>(self) < tasks_.size());
}

Engine::~Engine() = default;

void Engine::Finished::Run() {
  for (auto& [done, status] : sends) {
    done(status);
  }
  for (auto& [done, status] : receives) {
    done(status, {});
  }
  sends.clear();
  receives.clear();
}

Status Engine::CheckTask(PeerId task) const {
  if (task < 0 || static_cast<size_t>(task) >= tasks_.size()) {
    return InvalidArgument(
        fmt::format("there is no task {}: tasks are 0 to {}", task, tasks_.size() - 1));
  }
  return OkStatus();
}

Status Engine::StepStatus(const MessageKey& key) const {
  if (!aborted_.empty()) {
    for (const uint64_t step : {key.step, kWholeScope}) {
      const auto found = aborted_.find({key.scope, step});
      if (found != aborted_.end()) {
        return found->second;
      }
    }
  }
  if (!ended_.empty() &&
      (ended_.count({key.scope, key.step}) > 0 || ended_.count({key.scope, kWholeScope}) > 0)) {
    return FailedPrecondition(fmt::format("step {} of scope {} has ended", key.step, key.scope));
  }
  return OkStatus();
}

Status Engine::LostStatus(PeerId peer) const {
  const Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.link == nullptr) {
    return Unavailable(fmt::format("task {} is not connected", tasks_[static_cast<size_t>(peer)]));
  }
  return p.status;
}

std::string Engine::Describe(const SendOp& op) const {
  return "send of " + DescribeMessage(op.key, "to " + tasks_[static_cast<size_t>(op.to)]);
}

std::string Engine::Describe(const RecvOp& op) const {
  return "receive of " + DescribeMessage(op.key, "from " + tasks_[static_cast<size_t>(op.from)]);
}

void Engine::AddDeadline(const Deadline& deadline, bool send, uint64_t id) {
  if (deadline.infinite()) {
    return;
  }
  deadlines_.emplace(deadline.when(), send, id);
  if (deadline.when() < next_wake_) {
    next_wake_ = deadline.when();
    progress_.WakeAt(next_wake_);
  }
}

void Engine::RemoveDeadline(const Deadline& deadline, bool send, uint64_t id) {
  if (!deadline.infinite()) {
    deadlines_.erase({deadline.when(), send, id});
  }
}

Deadline::Clock::time_point Engine::ExpireDeadlines() {
  Finished finished;
  std::vector<std::pair<PeerId, Status>> silent;
  Time next = Time::max();
  {
    MutexLock lock(mu_);
    const Time now = progress_.Now();
    while (!deadlines_.empty() && std::get<0>(*deadlines_.begin()) <= now) {
      const auto [when, send, id] = *deadlines_.begin();
      const auto waited = [now = now](Time start) {
        return std::chrono::duration<double>(now - start).count();
      };
      if (send) {
        const SendOp& op = sends_.at(id);
        EndSend(id,
                DeadlineExceeded(fmt::format(
                    "{}: {} after {:.3f} s", Describe(op),
                    op.pushing ? "not all of it went" : "the receiver did not ask for it",
                    waited(op.start))),
                true, finished);
      } else {
        const RecvOp& op = receives_.at(id);
        EndRecv(id,
                DeadlineExceeded(fmt::format(
                    "{}: {} after {:.3f} s", Describe(op),
                    op.state == RecvState::kPosted ? "nothing came" : "not all of it came",
                    waited(op.start))),
                true, finished);
      }
    }
    if (now >= next_check_) {
      silent = CheckPeers(now);
    }
    next = deadlines_.empty() ? Time::max() : std::get<0>(*deadlines_.begin());
    next = std::min(next, next_check_);
    next_wake_ = next;
  }
  finished.Run();
  for (const auto& [peer, why] : silent) {
    LosePeer(peer, why, nullptr);
  }
  return next;
}

void Engine::EndStepOps(const StepId& step, const Status& why, bool tell_peer, Finished& finished) {
  const auto matches = [&step](const MessageKey& key) {
    return key.scope == step.first && (step.second == kWholeScope || key.step == step.second);
  };
  std::vector<uint64_t> ids;
  for (const auto& [id, op] : sends_) {
    if (matches(op.key)) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) {
    EndSend(id, why.With(Describe(sends_.at(id))), tell_peer, finished);
  }
  ids.clear();
  for (const auto& [id, op] : receives_) {
    if (matches(op.key)) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) {
    EndRecv(id, why.With(Describe(receives_.at(id))), tell_peer, finished);
  }
}

void Engine::DropStepArrivals(const StepId& step, const Status& why) {
  for (auto it = arrivals_.begin(); it != arrivals_.end();) {
    const MessageKey& key = it->first.key;
    if (key.scope != step.first || (step.second != kWholeScope && key.step != step.second)) {
      ++it;
      continue;
    }
    for (const Arrival& arrival : it->second) {
      ForgetArrival(it->first, arrival);
      if (arrival.frame.type == FrameType::kAnnounce) {
        SendReason(it->first.peer, FrameType::kRefuse, arrival.frame.transfer, why);
      }
    }
    it = arrivals_.erase(it);
  }
}

void Engine::Abort(uint64_t scope, uint64_t step, const Status& why) {
  Finished finished;
  {
    MutexLock lock(mu_);
    if (closed_) {
      return;
    }
    const Status cause = why.ok() ? Cancelled("aborted") : why;
    aborted_.emplace(StepId(scope, step), cause);
    EndStepOps({scope, step}, cause, true, finished);
    DropStepArrivals({scope, step}, cause);
  }
  finished.Run();
}

void Engine::AbortAt(PeerId peer, uint64_t scope, uint64_t step, const Status& why) {
  if (!CheckTask(peer).ok()) {
    return;
  }
  MutexLock lock(mu_);
  Peer& p = peers_[static_cast<size_t>(peer)];
  if (!LostStatus(peer).ok()) {
    return;
  }
  Frame frame = ReasonFrame(FrameType::kAbort, why);
  frame.key.scope = scope;
  frame.key.step = step;
  const std::string text = ReasonText(why);
  p.link->SendFrame(frame, std::as_bytes(std::span(text)));
}

void Engine::End(uint64_t scope, uint64_t step) {
  Finished finished;
  {
    MutexLock lock(mu_);
    const Status why =
        Aborted(fmt::format("{} has ended this step", tasks_[static_cast<size_t>(self_)]));
    EndStepOps({scope, step}, why, true, finished);
    DropStepArrivals({scope, step}, why);
    const auto from = aborted_.lower_bound({scope, step == kWholeScope ? 0 : step});
    auto to = from;
    while (to != aborted_.end() && to->first.first == scope &&
           (step == kWholeScope || to->first.second == step)) {
      ++to;
    }
    aborted_.erase(from, to);
    if (ended_.emplace(scope, step).second) {
      ended_order_.emplace_back(scope, step);
      if (ended_order_.size() > kMaxEndedSteps) {
        ended_.erase(ended_order_.front());
        ended_order_.pop_front();
      }
    }
  }
  finished.Run();
}

void Engine::CancelAll(const Status& why) {
  Finished finished;
  {
    MutexLock lock(mu_);
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      EndPeerOps(static_cast<PeerId>(peer), why, finished);
    }
  }
  finished.Run();
}

bool Engine::AllFlushed() const {
  MutexLock lock(mu_);
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.closed || peer.link->Flushed(); });
}

void Engine::Close(const Deadline& deadline) {
  {
    MutexLock lock(mu_);
    if (closed_) {
      return;
    }
    closed_ = true;
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (!peers_[peer].closed && peers_[peer].status.ok()) {
        peers_[peer].link->SendFrame(Frame(), {});
      }
    }
  }
  while (!AllFlushed() && !deadline.expired()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (size_t peer = 0; peer < tasks_.size(); ++peer) {
    LosePeer(static_cast<PeerId>(peer), Cancelled("this task has closed its transport"), nullptr);
  }
}

Status Engine::peer_status(PeerId peer) const {
  LS_TRY(CheckTask(peer));
  MutexLock lock(mu_);
  return LostStatus(peer);
}

uint64_t Engine::incarnation(PeerId peer) const {
  MutexLock lock(mu_);
  return CheckTask(peer).ok() ? peers_[static_cast<size_t>(peer)].incarnation : 0;
}

Result<LinkKind> Engine::link_kind(PeerId peer) const {
  LS_TRY(CheckTask(peer));
  MutexLock lock(mu_);
  const Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.link == nullptr) {
    return LostStatus(peer);
  }
  return p.link->kind();
}

LinkStats Engine::stats(PeerId peer) const {
  MutexLock lock(mu_);
  return CheckTask(peer).ok() ? peers_[static_cast<size_t>(peer)].stats : LinkStats();
}

int64_t Engine::num_pending() const {
  MutexLock lock(mu_);
  size_t count = sends_.size() + receives_.size();
  for (const auto& [key, list] : arrivals_) {
    count += list.size();
  }
  return static_cast<int64_t>(count);
}

Result<std::shared_ptr<Region>> Engine::CreateRegion(size_t bytes) {
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    number = next_id_++;
    std::erase_if(regions_, [](const auto& entry) { return entry.second.expired(); });
  }
  LS_ASSIGN_OR_RETURN(std::shared_ptr<Region> region, Region::Create(number, bytes));
  MutexLock lock(mu_);
  regions_.emplace(number, region);
  return region;
}

Result<std::shared_ptr<Region>> Engine::FindRegion(uint64_t number) {
  MutexLock lock(mu_);
  const auto found = regions_.find(number);
  std::shared_ptr<Region> region = found == regions_.end() ? nullptr : found->second.lock();
  if (region == nullptr) {
    return NotFound(
        fmt::format("task {} has no region {}", tasks_[static_cast<size_t>(self_)], number));
  }
  return region;
}

Result<std::shared_ptr<Region>> Engine::MapRegion(PeerId owner, uint64_t number,
                                                  const Deadline& deadline) {
  LS_TRY(CheckTask(owner));
  if (owner == self_) {
    return FindRegion(number);
  }
  std::shared_ptr<Link> link;
  {
    MutexLock lock(mu_);
    LS_TRY(LostStatus(owner));
    link = peers_[static_cast<size_t>(owner)].link;
  }
  Result<std::shared_ptr<Region>> region = link->MapRegion(number, deadline);
  if (!region.ok()) {
    return region.status().With(
        fmt::format("region {} of {}", number, tasks_[static_cast<size_t>(owner)]));
  }
  return region;
}

}  // namespace lockstep::net::internal
