// Whether peers are alive. Nobody is asked while nothing is pending with them, so that idle tasks
// stay idle and a large job has no traffic of every task with every other.
//
// Every quarter of the heartbeat each peer with whom something is pending is pinged. One of whom
// nothing was heard, and who took nothing, for a heartbeat and a quarter is lost: with the grain of
// the checks that is at most one and a half heartbeats after it fell silent.
#include <fmt/format.h>

#include "lockstep/net/internal/engine_sink.h"

namespace lockstep::net::internal {

void Engine::WatchPeers(std::chrono::milliseconds heartbeat) {
  MutexLock lock(mu_);
  heartbeat_ = heartbeat;
}

void Engine::BeginWatch() {
  if (heartbeat_.count() == 0 || next_check_ != Time::max()) {
    return;
  }
  last_check_ = progress_.Now();
  next_check_ = last_check_ + heartbeat_ / 4;
  if (next_check_ < next_wake_) {
    next_wake_ = next_check_;
    progress_.WakeAt(next_wake_);
  }
}

std::vector<std::pair<PeerId, Status>> Engine::CheckPeers(Time now) {
  // An operation that is younger than a check may have been begun a moment ago.
  const Time old = now - heartbeat_ / 4;
  std::vector<bool> waits(peers_.size(), false);
  for (const auto& [id, op] : sends_) {
    if (op.start <= old) {
      waits[static_cast<size_t>(op.to)] = true;
    }
  }
  for (const auto& [id, op] : receives_) {
    if (op.start <= old) {
      waits[static_cast<size_t>(op.from)] = true;
    }
  }
  // This task itself was stopped for a while, and has not read what came meanwhile.
  const bool late = now - last_check_ > heartbeat_ / 2;
  last_check_ = now;
  next_check_ = sends_.empty() && receives_.empty() ? Time::max() : now + heartbeat_ / 4;
  std::vector<std::pair<PeerId, Status>> silent;
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (!waits[i] || peer.closed || !peer.status.ok() || static_cast<PeerId>(i) == self_) {
      peer.watched = false;
      continue;
    }
    const uint64_t activity = peer.link->activity();
    if (!peer.watched || late || activity != peer.activity) {
      peer.watched = true;
      peer.activity = activity;
      peer.silent_since = now;
    } else if (now - peer.silent_since >= heartbeat_ * 5 / 4) {
      silent.emplace_back(
          static_cast<PeerId>(i),
          Unavailable(fmt::format("no sign of life for {:.1f} s",
                                  std::chrono::duration<double>(now - peer.silent_since).count())));
      continue;
    }
    Frame ping;
    ping.type = FrameType::kPing;
    peer.link->SendFrame(ping, {});
  }
  return silent;
}

void Engine::OnPing(PeerId from) {
  MutexLock lock(mu_);
  const Peer& peer = peers_[static_cast<size_t>(from)];
  // What is queued tells the same when it arrives, and nobody can make us queue answers.
  if (!peer.closed && peer.status.ok() && peer.link->Flushed()) {
    Frame pong;
    pong.type = FrameType::kPong;
    peer.link->SendFrame(pong, {});
  }
}

}  // namespace lockstep::net::internal
