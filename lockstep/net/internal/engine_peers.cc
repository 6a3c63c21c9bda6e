// Links and what they deliver: frames, credit, the loss of a peer.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "lockstep/net/internal/engine_sink.h"

namespace lockstep::net::internal {

LinkSink& Engine::SinkFor(PeerId peer) {
  LS_CHECK(CheckTask(peer).ok());
  MutexLock lock(mu_);
  auto& sinks = peers_[static_cast<size_t>(peer)].sinks;
  sinks.push_back(std::make_unique<Sink>(*this, peer));
  return *sinks.back();
}

Status Engine::Attach(PeerId peer, uint64_t incarnation, std::unique_ptr<Link> link) {
  LS_TRY(CheckTask(peer));
  Link* started = link.get();
  {
    MutexLock lock(mu_);
    Peer& p = peers_[static_cast<size_t>(peer)];
    if (closed_ || !p.closed) {
      return FailedPrecondition(
          fmt::format("task {} cannot be connected: {}", tasks_[static_cast<size_t>(peer)],
                      closed_ ? "this task has closed its transport" : "it is connected already"));
    }
    if (p.link != nullptr) {
      // What came from the former incarnation is not for the new one's time.
      std::erase_if(arrivals_, [peer](const auto& entry) { return entry.first.peer == peer; });
    }
    p.link = std::move(link);
    p.incarnation = incarnation;
    p.status = OkStatus();
    p.closed = false;
    p.eager_in_flight = p.eager_stored = p.eager_consumed = 0;
    p.announced = 0;
    p.stats = {};
    p.watched = false;
  }
  return started->Start();
}

Status Engine::OnFrame(const Sink& sink, const Frame& frame, std::span<const std::byte> body) {
  const PeerId from = sink.peer;
  {
    MutexLock lock(mu_);
    const Peer& peer = peers_[static_cast<size_t>(from)];
    if (peer.sinks.back().get() != &sink || !peer.status.ok()) {
      return OkStatus();
    }
  }
  LS_TRY(CheckBody(frame, body.size()));
  switch (frame.type) {
    case FrameType::kEager:
      return OnEager(from, frame, body);
    case FrameType::kAnnounce:
      return OnAnnounce(from, frame);
    case FrameType::kPull:
      OnPull(from, frame.transfer);
      return OkStatus();
    case FrameType::kDone:
      OnFetched(from, frame.transfer);
      return OkStatus();
    case FrameType::kRefuse:
      OnRefuse(from, frame.transfer, ReasonOf(frame, body));
      return OkStatus();
    case FrameType::kWithdraw:
      OnWithdraw(from, frame.transfer, ReasonOf(frame, body));
      return OkStatus();
    case FrameType::kCredit: {
      MutexLock lock(mu_);
      Peer& peer = peers_[static_cast<size_t>(from)];
      if (frame.value > peer.eager_in_flight) {
        return InvalidArgument(fmt::format("credit for {} bytes, of which {} are under way",
                                           frame.value, peer.eager_in_flight));
      }
      peer.eager_in_flight -= frame.value;
      return OkStatus();
    }
    case FrameType::kAbort:
      Abort(frame.key.scope, frame.key.step,
            ReasonOf(frame, body).With("aborted by " + tasks_[static_cast<size_t>(from)]));
      return OkStatus();
    case FrameType::kBye:
      LosePeer(from, Unavailable("it has closed its transport"), &sink);
      return OkStatus();
    case FrameType::kPing:
      OnPing(from);
      return OkStatus();
    case FrameType::kPong:
      return OkStatus();  // the link has counted it
    case FrameType::kData:
      break;  // the links' own
  }
  return InvalidArgument(
      fmt::format("a frame of type {} out of place", static_cast<int>(frame.type)));
}

Status Engine::OnEager(PeerId from, const Frame& frame, std::span<const std::byte> body) {
  RecvOp op;
  {
    MutexLock lock(mu_);
    Peer& peer = peers_[static_cast<size_t>(from)];
    peer.eager_stored += frame.header.bytes + kEagerOverheadBytes;
    if (peer.eager_stored > kEagerWindowBytes) {
      return InvalidArgument("it sends more small messages than it was granted");
    }
    peer.stats.received_messages += 1;
    peer.stats.received_bytes += frame.header.bytes;
    if (!StepStatus(frame.key).ok()) {
      Consumed(from, frame.header.bytes);
      return OkStatus();
    }
    const std::optional<uint64_t> id = TakePosted({from, frame.key});
    if (!id.has_value()) {
      // Not a null pointer even if empty: that is how an eager arrival is known.
      auto payload = std::make_unique_for_overwrite<std::byte[]>(std::max<size_t>(body.size(), 1));
      if (!body.empty()) {
        std::memcpy(payload.get(), body.data(), body.size());
      }
      arrivals_[{from, frame.key}].push_back({frame, std::move(payload)});
      return OkStatus();
    }
    op = RemoveRecv(*id);
  }
  FillAndFinish(std::move(op), frame.header, body.data());
  MutexLock lock(mu_);
  Consumed(from, frame.header.bytes);
  return OkStatus();
}

Status Engine::OnAnnounce(PeerId from, const Frame& frame) {
  std::optional<uint64_t> id;
  {
    MutexLock lock(mu_);
    Peer& peer = peers_[static_cast<size_t>(from)];
    const Transfer transfer(from, frame.transfer);
    if (announced_.count(transfer) > 0 || pulls_.count(transfer) > 0) {
      return InvalidArgument(fmt::format("it announces transfer {} twice", frame.transfer));
    }
    const Status step = StepStatus(frame.key);
    if (!step.ok()) {
      SendReason(from, FrameType::kRefuse, frame.transfer, step);
      return OkStatus();
    }
    id = TakePosted({from, frame.key});
    if (!id.has_value()) {
      if (peer.announced >= kMaxAnnounced) {
        return InvalidArgument(
            fmt::format("it announces more than {} messages that nobody receives", kMaxAnnounced));
      }
      peer.announced += 1;
      arrivals_[{from, frame.key}].push_back({frame, nullptr});
      announced_.emplace(transfer, PeerKey{from, frame.key});
      return OkStatus();
    }
    receives_.at(*id).state = RecvState::kLocating;
    pulls_.emplace(transfer, *id);
  }
  StartPull(*id, frame);
  return OkStatus();
}

void Engine::OnPull(PeerId from, uint64_t transfer) {
  MutexLock lock(mu_);
  const auto found = sends_.find(transfer);
  if (found == sends_.end() || found->second.to != from || found->second.pushing) {
    SendReason(from, FrameType::kWithdraw, transfer, Aborted("it is no longer offered"));
    return;
  }
  SendOp& op = found->second;
  op.pushing = true;
  Link& link = *peers_[static_cast<size_t>(from)].link;
  link.Push(transfer, op.payload, op.header.bytes,
            [this, transfer](const Status& status) { OnPushed(transfer, status); });
}

void Engine::OnFetched(PeerId from, uint64_t transfer) {
  SendOp op;
  {
    MutexLock lock(mu_);
    const auto found = sends_.find(transfer);
    if (found == sends_.end() || found->second.to != from || found->second.pushing) {
      return;
    }
    peers_[static_cast<size_t>(from)].link->EndOffer(transfer);
    op = RemoveSend(transfer);
  }
  op.done(op.ended);
}

void Engine::OnRefuse(PeerId from, uint64_t transfer, const Status& why) {
  Finished finished;
  {
    MutexLock lock(mu_);
    const auto found = sends_.find(transfer);
    if (found == sends_.end() || found->second.to != from) {
      return;
    }
    const std::string what = Describe(found->second);
    EndSend(transfer, why.With("refused by " + tasks_[static_cast<size_t>(from)]).With(what), false,
            finished);
  }
  finished.Run();
}

void Engine::OnWithdraw(PeerId from, uint64_t transfer, const Status& why) {
  Finished finished;
  {
    MutexLock lock(mu_);
    const auto announced = announced_.find({from, transfer});
    const auto pulled = pulls_.find({from, transfer});
    if (announced != announced_.end()) {
      const PeerKey key = announced->second;
      auto& list = arrivals_.at(key);
      for (auto it = list.begin(); it != list.end(); ++it) {
        if (it->frame.type == FrameType::kAnnounce && it->frame.transfer == transfer) {
          ForgetArrival(key, *it);
          list.erase(it);
          break;
        }
      }
      if (list.empty()) {
        arrivals_.erase(key);
      }
    } else if (pulled != pulls_.end()) {
      const uint64_t id = pulled->second;
      EndRecv(id,
              why.With("withdrawn by " + tasks_[static_cast<size_t>(from)])
                  .With(Describe(receives_.at(id))),
              false, finished);
    }
  }
  finished.Run();
}

void Engine::Consumed(PeerId from, uint64_t payload_bytes) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  const uint64_t cost = payload_bytes + kEagerOverheadBytes;
  peer.eager_stored -= std::min(peer.eager_stored, cost);
  peer.eager_consumed += cost;
  if (peer.eager_consumed >= kEagerWindowBytes / 4 && peer.status.ok() && !peer.closed) {
    Frame frame;
    frame.type = FrameType::kCredit;
    frame.value = std::exchange(peer.eager_consumed, 0);
    peer.link->SendFrame(frame, {});
  }
}

void Engine::SendReason(PeerId to, FrameType type, uint64_t transfer, const Status& why) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  if (peer.closed || !peer.status.ok()) {
    return;
  }
  Frame frame = ReasonFrame(type, why);
  frame.transfer = transfer;
  const std::string text = ReasonText(why);
  peer.link->SendFrame(frame, std::as_bytes(std::span(text)));
}

void Engine::OnDown(const Sink& sink, const Status& why) {
  LosePeer(sink.peer, why, &sink);
}

void Engine::FailPeer(PeerId peer, const Status& why) {
  if (CheckTask(peer).ok()) {
    LosePeer(peer, why, nullptr);
  }
}

void Engine::EndPeerOps(PeerId peer, const Status& why, Finished& finished) {
  std::vector<uint64_t> ids;
  for (const auto& [id, op] : sends_) {
    if (op.to == peer) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) {
    EndSend(id, why.With(Describe(sends_.at(id))), false, finished);
  }
  ids.clear();
  for (const auto& [id, op] : receives_) {
    if (op.from == peer) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) {
    EndRecv(id, why.With(Describe(receives_.at(id))), false, finished);
  }
}

void Engine::LosePeer(PeerId peer, const Status& why, const Sink* sink) {
  Finished finished;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(mu_);
    Peer& p = peers_[static_cast<size_t>(peer)];
    if (p.link == nullptr || !p.status.ok() || (sink != nullptr && p.sinks.back().get() != sink)) {
      return;
    }
    const std::string& name = tasks_[static_cast<size_t>(peer)];
    p.status =
        Status(why.ok() ? StatusCode::kUnavailable : why.code(),
               closed_ ? why.message() : fmt::format("task {} is lost: {}", name, why.message()));
    EndPeerOps(peer, p.status, finished);
    // Announced payloads are gone; what has arrived may still be received.
    for (auto it = announced_.lower_bound({peer, 0});
         it != announced_.end() && it->first.first == peer;) {
      auto& list = arrivals_.at(it->second);
      list.remove_if(
          [](const Arrival& arrival) { return arrival.frame.type == FrameType::kAnnounce; });
      if (list.empty()) {
        arrivals_.erase(it->second);
      }
      it = announced_.erase(it);
    }
    p.announced = 0;
    link = p.link;
  }
  link->Close();
  {
    // Those whose memory the link was still using.
    MutexLock lock(mu_);
    for (auto it = sends_.begin(); it != sends_.end();) {
      if (it->second.to == peer && !it->second.ended.ok()) {
        finished.sends.emplace_back(std::move(it->second.done), it->second.ended);
        it = sends_.erase(it);
      } else {
        ++it;
      }
    }
    for (auto it = receives_.begin(); it != receives_.end();) {
      if (it->second.from == peer && !it->second.ended.ok() &&
          it->second.state == RecvState::kPulling) {
        pulls_.erase({peer, it->second.announce.transfer});
        finished.receives.emplace_back(std::move(it->second.done), it->second.ended);
        it = receives_.erase(it);
      } else {
        ++it;
      }
    }
    peers_[static_cast<size_t>(peer)].closed = true;
  }
  finished.Run();
}

}  // namespace lockstep::net::internal
