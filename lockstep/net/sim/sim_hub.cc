#include "lockstep/net/sim/sim_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/base/philox.h"
#include "lockstep/net/internal/engine.h"

namespace lockstep::net {
namespace {

using internal::Frame;
using internal::FrameType;

// What would arrive later than this never does.
constexpr SimTime kNever = std::chrono::hours(24 * 365 * 50);

bool IsMessage(const Frame& frame) {
  return frame.type == FrameType::kEager || frame.type == FrameType::kAnnounce;
}

}  // namespace

SimNetwork::Hub::Hub(SimOptions options)
    : options_(std::move(options)),
      start_(Clock::now()),
      transports_(static_cast<size_t>(options_.num_tasks), nullptr) {}

void SimNetwork::Hub::StartThread() {
  thread_ = std::jthread([this] { ThreadMain(); });
}

void SimNetwork::Hub::StopThread() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SimNetwork::Hub::ThreadMain() {
  MutexLock lock(mu_);
  while (!stop_) {
    if (events_.empty()) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    } else if (const SimTime at = std::get<0>(events_.begin()->first); at > SinceStartLocked()) {
      changed_.WaitUntil(mu_, Deadline::At(start_ + at));
    } else {
      RunNextEvent();
    }
  }
}

SimTime SimNetwork::Hub::SinceStartLocked() const {
  return options_.virtual_time ? virtual_now_ : SimTime(Clock::now() - start_);
}

SimTime SimNetwork::Hub::SinceStart() const {
  MutexLock lock(mu_);
  return SinceStartLocked();
}

Deadline::Clock::time_point SimNetwork::Hub::Now() const {
  return start_ + SinceStart();
}

std::shared_ptr<SimNetwork::Hub::Port> SimNetwork::Hub::PortOf(PeerId owner, PeerId peer) {
  MutexLock lock(mu_);
  std::shared_ptr<Port>& port = ports_[{owner, peer}];
  if (port == nullptr) {
    port = std::make_shared<Port>();
  }
  return port;
}

void SimNetwork::Hub::set_transport(PeerId task, Transport* transport) {
  MutexLock lock(mu_);
  transports_[static_cast<size_t>(task)] = transport;
}

Transport* SimNetwork::Hub::transport(PeerId task) {
  MutexLock lock(mu_);
  return transports_[static_cast<size_t>(task)];
}

SimNetwork::Hub::Pair& SimNetwork::Hub::PairOf(PeerId from, PeerId to) {
  return pairs_[{from, to}];
}

SimTime SimNetwork::Hub::ArrivalTime(PeerId from, PeerId to, const Frame& frame, uint64_t bytes) {
  Pair& pair = PairOf(from, to);
  SimTime leaves = SinceStartLocked();
  if (options_.bytes_per_second > 0) {
    const std::chrono::duration<double> takes(static_cast<double>(bytes) /
                                              options_.bytes_per_second);
    leaves = std::max(leaves, pair.busy) + std::chrono::duration_cast<SimTime>(takes);
    pair.busy = leaves;
  }
  SimTime at = leaves + (from == to ? SimTime(0) : options_.latency + pair.delay);
  if (options_.jitter.count() > 0) {
    const PhiloxStream random(options_.seed, "sim jitter", from, to);
    const double share = UniformFloat(random.Word(pair.frames));
    at += SimTime(static_cast<int64_t>(share * static_cast<double>(options_.jitter.count())));
  }
  pair.frames += 1;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Hold& hold : holds_) {
      const bool has_from = hold.side.count(from) > 0;
      const bool has_to = hold.side.count(to) > 0;
      const bool held = hold.whole_task ? has_from || has_to : has_from != has_to;
      const SimTime passes = SinceStartLocked();
      const bool now_held = passes >= hold.from && passes < hold.until;
      if (held && (now_held || (at >= hold.from && at < hold.until)) && at < hold.until) {
        at = hold.until;
        moved = true;
      }
    }
  }
  if (options_.reorder && IsMessage(frame)) {
    SimTime& last = pair.last_of_key[{frame.key.scope, frame.key.step, frame.key.item}];
    at = std::max({at, pair.last_order, last});
    last = at;
  } else {
    at = std::max(at, pair.last);
    pair.last_order = at;
  }
  pair.last = std::max(pair.last, at);
  return at;
}

bool SimNetwork::Hub::Lost(PeerId from, PeerId to, const Frame& frame) {
  if (dead_.count(from) > 0 || dead_.count(to) > 0) {
    return true;
  }
  if (!IsMessage(frame)) {
    return false;
  }
  const int64_t number = sent_messages_[from]++;
  const auto kill = kill_at_message_.find(from);
  if (kill != kill_at_message_.end() && number >= kill->second) {
    if (number == kill->second) {
      events_.emplace(EventKey(SinceStartLocked(), from, -1, next_event_++),
                      [this, from] { KillTask(from); });
    }
    return true;
  }
  Pair& pair = PairOf(from, to);
  const int64_t message = pair.counts.messages++;
  pair.counts.payload_bytes += static_cast<int64_t>(frame.header.bytes);
  if (pair.dropped.count(message) > 0) {
    return true;
  }
  const PhiloxStream random(options_.seed, "sim loss", from, to);
  return options_.loss > 0 && from != to &&
         UniformFloat(random.Word(static_cast<uint64_t>(message))) < options_.loss;
}

void SimNetwork::Hub::Transmit(PeerId from, PeerId to, const Frame& frame,
                               std::span<const std::byte> body) {
  internal::FrameBytes header;
  const size_t header_bytes = internal::EncodeFrame(frame, header);
  std::vector<std::byte> bytes(header.begin(),
                               header.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  bytes.insert(bytes.end(), body.begin(), body.end());
  MutexLock lock(mu_);
  if (Lost(from, to, frame)) {
    changed_.NotifyAll();
    return;
  }
  const SimTime at = ArrivalTime(from, to, frame, bytes.size());
  if (at >= kNever) {
    return;
  }
  events_.emplace(EventKey(at, to, from, PairOf(from, to).frames),
                  [this, from, to, bytes = std::move(bytes)] { Deliver(from, to, bytes); });
  changed_.NotifyAll();
}

void SimNetwork::Hub::Deliver(PeerId from, PeerId to, std::span<const std::byte> bytes) {
  const std::shared_ptr<Port> port = PortOf(to, from);
  {
    MutexLock lock(mu_);
    if (dead_.count(from) > 0 || dead_.count(to) > 0) {
      return;
    }
  }
  if (!port->open) {
    return;
  }
  port->received += 1;
  Result<internal::ParsedFrame> parsed = internal::ParseFrame(bytes);
  Status status = parsed.status();
  if (parsed.ok()) {
    const std::span<const std::byte> body = bytes.subspan(parsed->header_bytes);
    if (parsed->frame.type == FrameType::kData) {
      internal::MoveDone finished;
      status = port->streams.OnData(parsed->frame, body, &finished);
      if (finished) {
        finished(OkStatus());
      }
    } else {
      status = port->sink->OnFrame(parsed->frame, body);
    }
  }
  if (!status.ok()) {
    port->sink->OnDown(status);
  }
}

void SimNetwork::Hub::RunSoon(PeerId owner, std::function<void()> action) {
  MutexLock lock(mu_);
  events_.emplace(EventKey(SinceStartLocked(), owner, -1, next_event_++), std::move(action));
  changed_.NotifyAll();
}

void SimNetwork::Hub::RunAt(PeerId owner, SimTime at, std::function<void()> action) {
  MutexLock lock(mu_);
  events_.emplace(EventKey(std::max(at, SinceStartLocked()), owner, -1, next_event_++),
                  std::move(action));
  changed_.NotifyAll();
}

bool SimNetwork::Hub::Idle() const {
  return static_cast<int>(waiting_.size()) >= threads_ &&
         std::all_of(waiting_.begin(), waiting_.end(),
                     [](const auto* pending) { return pending->load() != 0; });
}

void SimNetwork::Hub::RunNextEvent() {
  std::function<void()> action;
  if (events_.empty()) {
    action = [this] {
      for (int task = 0; task < options_.num_tasks; ++task) {
        transport(task)->engine().CancelAll(DeadlineExceeded(
            "every task waits, nothing is under way and no deadline will ever pass"));
      }
    };
  } else {
    const auto first = events_.begin();
    virtual_now_ = std::max(virtual_now_, std::get<0>(first->first));
    action = std::move(first->second);
    events_.erase(first);
  }
  mu_.Unlock();
  action();
  mu_.Lock();
}

void SimNetwork::Hub::Await(const std::atomic<int32_t>& pending) {
  MutexLock lock(mu_);
  if (pending.load() == 0) {
    return;
  }
  waiting_.push_back(&pending);
  changed_.NotifyAll();
  while (pending.load() != 0) {
    if (options_.virtual_time && !driving_ && Idle()) {
      driving_ = true;
      RunNextEvent();
      driving_ = false;
      changed_.NotifyAll();
    } else {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    }
  }
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &pending));
}

void SimNetwork::Hub::Notify() {
  MutexLock lock(mu_);
  changed_.NotifyAll();
}

void SimNetwork::Hub::EnterThread() {
  MutexLock lock(mu_);
  threads_ += 1;
}

void SimNetwork::Hub::LeaveThread() {
  MutexLock lock(mu_);
  threads_ -= 1;
  changed_.NotifyAll();
}

void SimNetwork::Hub::KillTask(PeerId task) {
  {
    MutexLock lock(mu_);
    if (!dead_.insert(task).second) {
      return;
    }
  }
  for (int peer = 0; peer < options_.num_tasks; ++peer) {
    const auto mine = PortOf(task, peer);
    if (mine->open) {
      mine->sink->OnDown(Unavailable("this task was killed"));
    }
    const auto theirs = PortOf(peer, task);
    if (peer != task) {
      RunAt(peer, SinceStart() + options_.latency, [theirs] {
        if (theirs->open) {
          theirs->sink->OnDown(Unavailable("its process has ended"));
        }
      });
    }
  }
}

void SimNetwork::Hub::KillTaskAtMessage(PeerId task, int64_t message) {
  MutexLock lock(mu_);
  kill_at_message_[task] = message;
}

void SimNetwork::Hub::HoldTask(PeerId task, SimTime from, SimTime until) {
  MutexLock lock(mu_);
  holds_.push_back({{task}, true, from, until});
}

void SimNetwork::Hub::DropMessage(PeerId from, PeerId to, int64_t message) {
  MutexLock lock(mu_);
  PairOf(from, to).dropped.insert(message);
}

void SimNetwork::Hub::DelayLink(PeerId from, PeerId to, SimTime delay) {
  MutexLock lock(mu_);
  PairOf(from, to).delay = delay;
}

void SimNetwork::Hub::HoldSide(std::set<PeerId> side, SimTime from, SimTime until) {
  MutexLock lock(mu_);
  holds_.push_back({std::move(side), false, from, until});
}

SimCounts SimNetwork::Hub::counts(PeerId from, PeerId to) const {
  MutexLock lock(mu_);
  const auto found = pairs_.find({from, to});
  return found == pairs_.end() ? SimCounts() : found->second.counts;
}

}  // namespace lockstep::net
