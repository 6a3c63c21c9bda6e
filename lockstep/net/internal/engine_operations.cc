// Sends and receives: their beginning, their way and their ends.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "lockstep/net/internal/engine_sink.h"

namespace lockstep::net::internal {

void Engine::Send(PeerId to, const MessageKey& key, const MessageHeader& header,
                  const void* payload, const Deadline& deadline, SendDone done) {
  Status status = CheckTask(to);
  if (status.ok()) {
    MutexLock lock(mu_);
    status = closed_ ? Cancelled("this task has closed its transport") : StepStatus(key);
    if (status.ok()) {
      status = LostStatus(to);
    }
    if (status.ok() && !deadline.infinite() && deadline.when() <= progress_.Now()) {
      status = DeadlineExceeded("the deadline had passed before the call");
    }
    if (status.ok()) {
      Peer& peer = peers_[static_cast<size_t>(to)];
      peer.stats.sent_messages += 1;
      peer.stats.sent_bytes += header.bytes;
      const uint64_t cost = header.bytes + kEagerOverheadBytes;
      if (header.bytes > peer.link->eager_bytes() ||
          peer.eager_in_flight + cost > kEagerWindowBytes) {
        SendAnnounced({.to = to,
                       .key = key,
                       .header = header,
                       .payload = payload,
                       .start = progress_.Now(),
                       .deadline = deadline,
                       .done = std::move(done),
                       .pushing = false,
                       .ended = {}});
        return;
      }
      peer.eager_in_flight += cost;
      Frame frame;
      frame.type = FrameType::kEager;
      frame.key = key;
      frame.header = header;
      peer.link->SendFrame(frame, {static_cast<const std::byte*>(payload), header.bytes});
    } else {
      SendOp op;
      op.to = to;
      op.key = key;
      status = status.With(Describe(op));
    }
  }
  done(status);
}

void Engine::SendAnnounced(SendOp op) {
  Peer& peer = peers_[static_cast<size_t>(op.to)];
  const uint64_t transfer = next_id_++;
  Frame frame;
  frame.type = FrameType::kAnnounce;
  frame.key = op.key;
  frame.header = op.header;
  frame.transfer = transfer;
  peer.link->Offer(&frame, op.payload);
  AddDeadline(op.deadline, true, transfer);
  BeginWatch();
  sends_.emplace(transfer, std::move(op));
  peer.link->SendFrame(frame, {});
}

void Engine::Recv(PeerId from, const MessageKey& key, Locate locate, const Deadline& deadline,
                  RecvDone done) {
  Status status = CheckTask(from);
  RecvOp op;
  op.from = from;
  op.key = key;
  op.locate = std::move(locate);
  op.start = progress_.Now();
  op.deadline = deadline;
  op.done = std::move(done);
  if (!status.ok()) {
    op.done(status, {});
    return;
  }
  std::optional<Arrival> arrival;
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    status = closed_ ? Cancelled("this task has closed its transport") : StepStatus(key);
    if (status.ok()) {
      arrival = TakeArrival({from, key});
      if (!arrival.has_value()) {
        status = LostStatus(from);
        if (status.ok() && !deadline.infinite() && deadline.when() <= op.start) {
          status = DeadlineExceeded("the deadline had passed before the call");
        }
      }
    }
    if (status.ok() && !arrival.has_value()) {
      posted_[{from, key}].push_back(AddRecv(std::move(op)));
      return;
    }
    if (status.ok() && arrival->payload == nullptr) {
      op.state = RecvState::kLocating;
      id = AddRecv(std::move(op));
      pulls_.emplace(Transfer(from, arrival->frame.transfer), id);
    }
  }
  if (!status.ok()) {
    const Status ended = status.With(Describe(op));
    op.done(ended, {});
  } else if (id != 0) {
    StartPull(id, std::move(arrival->frame));
  } else {
    const MessageHeader header = arrival->frame.header;
    FillAndFinish(std::move(op), header, arrival->payload.get());
    MutexLock lock(mu_);
    Consumed(from, header.bytes);
  }
}

Status Engine::Fill(const Locate& locate, const MessageHeader& header, const void* payload) {
  LS_ASSIGN_OR_RETURN(void* target, locate(header));
  if (header.bytes > 0) {
    std::memcpy(target, payload, header.bytes);
  }
  return OkStatus();
}

void Engine::FillAndFinish(RecvOp op, const MessageHeader& header, const void* payload) {
  Status status = Fill(op.locate, header, payload);
  if (!status.ok()) {
    status = status.With(Describe(op));
  }
  {
    MutexLock lock(mu_);
    peers_[static_cast<size_t>(op.from)].stats.receive_wait_seconds +=
        std::chrono::duration<double>(progress_.Now() - op.start).count();
  }
  op.done(status, header);
}

uint64_t Engine::AddRecv(RecvOp op) {
  const uint64_t id = next_id_++;
  AddDeadline(op.deadline, false, id);
  BeginWatch();
  receives_.emplace(id, std::move(op));
  return id;
}

std::optional<uint64_t> Engine::TakePosted(const PeerKey& key) {
  const auto found = posted_.find(key);
  if (found == posted_.end()) {
    return std::nullopt;
  }
  const uint64_t id = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    posted_.erase(found);
  }
  return id;
}

std::optional<Engine::Arrival> Engine::TakeArrival(const PeerKey& key) {
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) {
    return std::nullopt;
  }
  Arrival arrival = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    arrivals_.erase(found);
  }
  if (arrival.frame.type == FrameType::kAnnounce) {
    announced_.erase({key.peer, arrival.frame.transfer});
    peers_[static_cast<size_t>(key.peer)].announced -= 1;
  }
  return arrival;
}

void Engine::ForgetArrival(const PeerKey& key, const Arrival& arrival) {
  if (arrival.frame.type == FrameType::kAnnounce) {
    announced_.erase({key.peer, arrival.frame.transfer});
    peers_[static_cast<size_t>(key.peer)].announced -= 1;
  } else {
    Consumed(key.peer, arrival.frame.header.bytes);
  }
}

Engine::RecvOp Engine::RemoveRecv(uint64_t id) {
  const auto found = receives_.find(id);
  RecvOp op = std::move(found->second);
  receives_.erase(found);
  RemoveDeadline(op.deadline, false, id);
  return op;
}

Engine::SendOp Engine::RemoveSend(uint64_t transfer) {
  const auto found = sends_.find(transfer);
  SendOp op = std::move(found->second);
  sends_.erase(found);
  RemoveDeadline(op.deadline, true, transfer);
  return op;
}

void Engine::StartPull(uint64_t id, Frame announce) {
  const Locate* locate = nullptr;
  {
    MutexLock lock(mu_);
    RecvOp& op = receives_.at(id);
    op.announce = announce;
    locate = &op.locate;  // in this state nobody else removes the operation
  }
  const Result<void*> target = (*locate)(announce.header);
  Finished finished;
  {
    MutexLock lock(mu_);
    RecvOp& op = receives_.at(id);
    op.state = RecvState::kPulling;
    Peer& peer = peers_[static_cast<size_t>(op.from)];
    Status why = op.ended;
    if (why.ok()) {
      why = LostStatus(op.from);
    }
    if (why.ok() && !target.ok()) {
      why = target.status();
    }
    if (why.ok()) {
      peer.link->Pull(announce, *target,
                      [this, id](const Status& status) { OnPulled(id, status); });
    } else {
      SendReason(op.from, FrameType::kRefuse, announce.transfer, why);
      if (op.ended.ok()) {
        why = why.With(Describe(op));
      }
      pulls_.erase({op.from, announce.transfer});
      finished.receives.emplace_back(RemoveRecv(id).done, why);
    }
  }
  finished.Run();
}

void Engine::OnPulled(uint64_t id, const Status& status) {
  RecvDone done;
  Status ended;
  MessageHeader header;
  {
    MutexLock lock(mu_);
    if (receives_.count(id) == 0) {
      return;
    }
    const RecvOp op = RemoveRecv(id);
    pulls_.erase({op.from, op.announce.transfer});
    Peer& peer = peers_[static_cast<size_t>(op.from)];
    ended = !op.ended.ok() ? op.ended : status.ok() ? status : status.With(Describe(op));
    header = op.announce.header;
    if (ended.ok()) {
      peer.stats.received_messages += 1;
      peer.stats.received_bytes += header.bytes;
    }
    peer.stats.receive_wait_seconds +=
        std::chrono::duration<double>(progress_.Now() - op.start).count();
    done = op.done;
  }
  done(ended, header);
}

void Engine::OnPushed(uint64_t transfer, const Status& status) {
  SendOp op;
  {
    MutexLock lock(mu_);
    if (sends_.count(transfer) == 0) {
      return;
    }
    op = RemoveSend(transfer);
  }
  op.done(!op.ended.ok() ? op.ended : status.ok() ? status : status.With(Describe(op)));
}

void Engine::EndSend(uint64_t transfer, const Status& why, bool tell_peer, Finished& finished) {
  const auto found = sends_.find(transfer);
  if (found == sends_.end()) {
    return;
  }
  SendOp& op = found->second;
  if (!op.ended.ok()) {
    return;
  }
  RemoveDeadline(op.deadline, true, transfer);
  op.deadline = Deadline::Infinite();
  Link* link = peers_[static_cast<size_t>(op.to)].link.get();
  const bool free = !op.pushing || link->CancelPush(transfer);
  if (!op.pushing) {
    link->EndOffer(transfer);
  }
  if (tell_peer) {
    SendReason(op.to, FrameType::kWithdraw, transfer, why);
  }
  op.ended = why;
  if (free) {
    finished.sends.emplace_back(RemoveSend(transfer).done, why);
  }
}

void Engine::EndRecv(uint64_t id, const Status& why, bool tell_peer, Finished& finished) {
  const auto found = receives_.find(id);
  if (found == receives_.end()) {
    return;
  }
  RecvOp& op = found->second;
  if (!op.ended.ok()) {
    return;
  }
  RemoveDeadline(op.deadline, false, id);
  op.deadline = Deadline::Infinite();
  op.ended = why;
  if (op.state == RecvState::kLocating) {
    return;  // StartPull ends it
  }
  if (op.state == RecvState::kPosted) {
    const auto posted = posted_.find({op.from, op.key});
    posted->second.remove(id);
    if (posted->second.empty()) {
      posted_.erase(posted);
    }
    finished.receives.emplace_back(RemoveRecv(id).done, why);
    return;
  }
  const uint64_t transfer = op.announce.transfer;
  const PeerId from = op.from;
  if (peers_[static_cast<size_t>(from)].link->CancelPull(transfer)) {
    pulls_.erase({from, transfer});
    finished.receives.emplace_back(RemoveRecv(id).done, why);
  }
  if (tell_peer) {
    SendReason(from, FrameType::kRefuse, transfer, why);
  }
}

}  // namespace lockstep::net::internal
