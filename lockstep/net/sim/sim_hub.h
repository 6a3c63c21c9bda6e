// Hub: the inside of a SimNetwork: events in order of time, the clock, and the scripted faults.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/chunk_streams.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/sim/sim_network.h"

namespace lockstep::net {

class SimNetwork::Hub {
 public:
  using Clock = Deadline::Clock;

  // One end of a link: where `owner` receives from `peer`.
  struct Port {
    internal::LinkSink* sink = nullptr;
    internal::ChunkStreams streams;
    std::atomic<bool> open{false};
    std::atomic<uint64_t> received{0};
  };

  explicit Hub(SimOptions options);

  const SimOptions& options() const { return options_; }

  // Real time only.
  void StartThread();
  void StopThread();

  Clock::time_point Now() const;
  SimTime SinceStart() const;
  std::shared_ptr<Port> PortOf(PeerId owner, PeerId peer);
  void set_transport(PeerId task, Transport* transport);
  Transport* transport(PeerId task);

  // Takes a frame on its way.
  void Transmit(PeerId from, PeerId to, const internal::Frame& frame,
                std::span<const std::byte> body);
  // Runs `action` for `owner` as soon as the clock runs on.
  void RunSoon(PeerId owner, std::function<void()> action);
  void RunAt(PeerId owner, SimTime at, std::function<void()> action);
  void Await(const std::atomic<int32_t>& pending);
  void Notify();
  void EnterThread();
  void LeaveThread();

  void KillTask(PeerId task);
  void KillTaskAtMessage(PeerId task, int64_t message);
  void HoldTask(PeerId task, SimTime from, SimTime until);
  void DropMessage(PeerId from, PeerId to, int64_t message);
  void DelayLink(PeerId from, PeerId to, SimTime delay);
  void HoldSide(std::set<PeerId> side, SimTime from, SimTime until);
  SimCounts counts(PeerId from, PeerId to) const;

 private:
  // When, for whom, from whom (or -1 for what is no message), number.
  using EventKey = std::tuple<SimTime, PeerId, PeerId, uint64_t>;

  struct Pair {
    SimCounts counts;
    SimTime busy{0};        // the wire, with a limited rate
    SimTime last{0};        // when the latest frame arrives
    SimTime last_order{0};  // when the latest frame that nothing may overtake arrives
    std::map<std::tuple<uint64_t, uint64_t, uint64_t>, SimTime> last_of_key;
    uint64_t frames = 0;
    SimTime delay{0};
    std::set<int64_t> dropped;
  };

  struct Hold {
    std::set<PeerId> side;
    bool whole_task;  // everything of the one task, or what crosses the side's border
    SimTime from;
    SimTime until;
  };

  Pair& PairOf(PeerId from, PeerId to) LS_REQUIRES(mu_);
  SimTime SinceStartLocked() const LS_REQUIRES(mu_);
  SimTime ArrivalTime(PeerId from, PeerId to, const internal::Frame& frame, uint64_t bytes)
      LS_REQUIRES(mu_);
  bool Lost(PeerId from, PeerId to, const internal::Frame& frame) LS_REQUIRES(mu_);
  // True if every thread of the network waits, and for something that has not happened.
  bool Idle() const LS_REQUIRES(mu_);
  // Releases the lock while the event runs.
  void RunNextEvent() LS_REQUIRES(mu_);
  void Deliver(PeerId from, PeerId to, std::span<const std::byte> bytes);
  void ThreadMain();

  const SimOptions options_;
  const Clock::time_point start_;
  mutable Mutex mu_;
  CondVar changed_;
  SimTime virtual_now_ LS_GUARDED_BY(mu_){0};
  std::map<EventKey, std::function<void()>> events_ LS_GUARDED_BY(mu_);
  uint64_t next_event_ LS_GUARDED_BY(mu_) = 0;
  int threads_ LS_GUARDED_BY(mu_) = 0;
  bool driving_ LS_GUARDED_BY(mu_) = false;
  bool stop_ LS_GUARDED_BY(mu_) = false;
  std::vector<const std::atomic<int32_t>*> waiting_ LS_GUARDED_BY(mu_);
  std::map<std::pair<PeerId, PeerId>, Pair> pairs_ LS_GUARDED_BY(mu_);
  std::map<std::pair<PeerId, PeerId>, std::shared_ptr<Port>> ports_ LS_GUARDED_BY(mu_);
  std::vector<Transport*> transports_ LS_GUARDED_BY(mu_);
  std::vector<Hold> holds_ LS_GUARDED_BY(mu_);
  std::set<PeerId> dead_ LS_GUARDED_BY(mu_);
  std::map<PeerId, int64_t> kill_at_message_ LS_GUARDED_BY(mu_);
  std::map<PeerId, int64_t> sent_messages_ LS_GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace lockstep::net
