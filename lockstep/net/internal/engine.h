// Engine: matches sends, receives and arrivals of one task, whatever links carry them; keeps
// deadlines, aborts, lost peers and the bounds on what an unexpected message may take.
//
// Receives:  kPosted -> kLocating -> kPulling -> done     (eager: kPosted -> done)
// Sends:     kOffered -> kPushing -> done                 (eager: done at once)
// Whatever ends an operation early (deadline, abort, lost peer, refusal) goes through EndSend and
// EndRecv. Callbacks run without the lock; links are called with it (link.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/link.h"
#include "lockstep/net/transport.h"

namespace lockstep::net::internal {

class Engine {
 public:
  Engine(Progress& progress, PeerId self, std::vector<std::string> tasks);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  PeerId self() const { return self_; }

  const std::vector<std::string>& tasks() const { return tasks_; }

  // Where a new link to `peer` delivers; valid as long as the Engine.
  LinkSink& SinkFor(PeerId peer);
  // Connects `peer`, in place of a lost link, and starts the link.
  Status Attach(PeerId peer, uint64_t incarnation, std::unique_ptr<Link> link);

  void Send(PeerId to, const MessageKey& key, const MessageHeader& header, const void* payload,
            const Deadline& deadline, SendDone done);
  void Recv(PeerId from, const MessageKey& key, Locate locate, const Deadline& deadline,
            RecvDone done);
  // `step` is kWholeScope for all steps.
  void Abort(uint64_t scope, uint64_t step, const Status& why);
  void AbortAt(PeerId peer, uint64_t scope, uint64_t step, const Status& why);
  void End(uint64_t scope, uint64_t step);
  void FailPeer(PeerId peer, const Status& why);
  // Everything that is pending ends with `why`.
  void CancelAll(const Status& why);
  void Close(const Deadline& deadline);

  // From now on a peer with whom something is pending, and who gives no sign of life, is lost
  // within one and a half times this.
  void WatchPeers(std::chrono::milliseconds heartbeat);

  // Ends what is overdue; the time of the next deadline.
  Deadline::Clock::time_point ExpireDeadlines();

  Status peer_status(PeerId peer) const;
  uint64_t incarnation(PeerId peer) const;
  Result<LinkKind> link_kind(PeerId peer) const;
  LinkStats stats(PeerId peer) const;
  int64_t num_pending() const;
  Result<std::shared_ptr<Region>> CreateRegion(size_t bytes);
  Result<std::shared_ptr<Region>> FindRegion(uint64_t number);
  Result<std::shared_ptr<Region>> MapRegion(PeerId owner, uint64_t number,
                                            const Deadline& deadline);

  static constexpr uint64_t kWholeScope = UINT64_MAX;
  // Eager messages that one peer may have sent and the other not yet received, their overhead
  // included.
  static constexpr uint64_t kEagerWindowBytes = uint64_t{4} << 20;
  static constexpr uint64_t kEagerOverheadBytes = 256;
  // Announcements that a peer may have open at once.
  static constexpr size_t kMaxAnnounced = size_t{1} << 20;

 private:
  using Time = Deadline::Clock::time_point;
  using StepId = std::pair<uint64_t, uint64_t>;  // scope, step

  class Sink;

  struct PeerKey {
    PeerId peer;
    MessageKey key;

    friend bool operator==(const PeerKey& a, const PeerKey& b) = default;
  };

  struct PeerKeyHash {
    size_t operator()(const PeerKey& key) const {
      return MessageKeyHash()(key.key) ^ (static_cast<size_t>(key.peer) * 0x9E3779B1U);
    }
  };

  using Transfer = std::pair<PeerId, uint64_t>;

  struct SendOp {
    PeerId to = 0;
    MessageKey key;
    MessageHeader header;
    const void* payload = nullptr;
    Time start;
    Deadline deadline = Deadline::Infinite();
    SendDone done;
    bool pushing = false;
    Status ended;  // why it ends, while the link still reads the payload
  };

  enum class RecvState { kPosted, kLocating, kPulling };

  struct RecvOp {
    PeerId from = 0;
    MessageKey key;
    Locate locate;
    Time start;
    Deadline deadline = Deadline::Infinite();
    RecvDone done;
    RecvState state = RecvState::kPosted;
    Frame announce;
    Status ended;  // why it ends, while locating or pulling
  };

  struct Arrival {
    Frame frame;
    std::unique_ptr<std::byte[]> payload;  // of an eager message
  };

  struct Peer {
    std::shared_ptr<Link> link;
    std::vector<std::unique_ptr<Sink>> sinks;  // the last one is the current link's
    uint64_t incarnation = 0;
    Status status;                 // why it is lost
    bool closed = true;            // there is no link, or it is lost and closed
    uint64_t eager_in_flight = 0;  // sent by us, not yet consumed there
    uint64_t eager_stored = 0;     // sent by them, not yet consumed here
    uint64_t eager_consumed = 0;   // not yet credited to them
    size_t announced = 0;
    LinkStats stats;
    bool watched = false;   // something is pending with it for a while
    uint64_t activity = 0;  // of the link, when it was last seen to change
    Time silent_since;
  };

  // Callbacks to be run when the lock is released.
  struct Finished {
    std::vector<std::pair<SendDone, Status>> sends;
    std::vector<std::pair<RecvDone, Status>> receives;

    void Run();
  };

  // An eager payload on its way into its buffer.
  static Status Fill(const Locate& locate, const MessageHeader& header, const void* payload);
  void FillAndFinish(RecvOp op, const MessageHeader& header, const void* payload);

  Status CheckTask(PeerId task) const;
  // Why an operation of this key cannot begin or an arrival is not wanted.
  Status StepStatus(const MessageKey& key) const LS_REQUIRES(mu_);
  Status LostStatus(PeerId peer) const LS_REQUIRES(mu_);

  void SendAnnounced(SendOp op) LS_REQUIRES(mu_);
  uint64_t AddRecv(RecvOp op) LS_REQUIRES(mu_);
  std::optional<uint64_t> TakePosted(const PeerKey& key) LS_REQUIRES(mu_);
  std::optional<Arrival> TakeArrival(const PeerKey& key) LS_REQUIRES(mu_);
  RecvOp RemoveRecv(uint64_t id) LS_REQUIRES(mu_);
  SendOp RemoveSend(uint64_t transfer) LS_REQUIRES(mu_);
  // After TakePosted or for a receive that met an announcement; calls the user's locate.
  void StartPull(uint64_t id, Frame announce);
  void OnPulled(uint64_t id, const Status& status);
  void OnPushed(uint64_t transfer, const Status& status);

  void EndSend(uint64_t transfer, const Status& why, bool tell_peer, Finished& finished)
      LS_REQUIRES(mu_);
  void EndRecv(uint64_t id, const Status& why, bool tell_peer, Finished& finished) LS_REQUIRES(mu_);
  void DropStepArrivals(const StepId& step, const Status& why) LS_REQUIRES(mu_);
  void ForgetArrival(const PeerKey& key, const Arrival& arrival) LS_REQUIRES(mu_);
  void EndStepOps(const StepId& step, const Status& why, bool tell_peer, Finished& finished)
      LS_REQUIRES(mu_);
  void EndPeerOps(PeerId peer, const Status& why, Finished& finished) LS_REQUIRES(mu_);
  void Consumed(PeerId from, uint64_t payload_bytes) LS_REQUIRES(mu_);
  void SendReason(PeerId to, FrameType type, uint64_t transfer, const Status& why) LS_REQUIRES(mu_);
  void BeginWatch() LS_REQUIRES(mu_);
  // Pings whom something is pending with; answers who is silent for too long.
  std::vector<std::pair<PeerId, Status>> CheckPeers(Time now) LS_REQUIRES(mu_);
  void OnPing(PeerId from);
  void AddDeadline(const Deadline& deadline, bool send, uint64_t id) LS_REQUIRES(mu_);
  void RemoveDeadline(const Deadline& deadline, bool send, uint64_t id) LS_REQUIRES(mu_);
  std::string Describe(const SendOp& op) const;
  std::string Describe(const RecvOp& op) const;

  Status OnFrame(const Sink& sink, const Frame& frame, std::span<const std::byte> body);
  Status OnEager(PeerId from, const Frame& frame, std::span<const std::byte> body);
  Status OnAnnounce(PeerId from, const Frame& frame);
  void OnPull(PeerId from, uint64_t transfer);
  void OnFetched(PeerId from, uint64_t transfer);
  void OnRefuse(PeerId from, uint64_t transfer, const Status& why);
  void OnWithdraw(PeerId from, uint64_t transfer, const Status& why);
  void OnDown(const Sink& sink, const Status& why);
  void LosePeer(PeerId peer, const Status& why, const Sink* sink);
  bool AllFlushed() const;

  Progress& progress_;
  const PeerId self_;
  const std::vector<std::string> tasks_;

  mutable Mutex mu_;
  std::vector<Peer> peers_ LS_GUARDED_BY(mu_);
  uint64_t next_id_ LS_GUARDED_BY(mu_) = 1;
  std::unordered_map<uint64_t, SendOp> sends_ LS_GUARDED_BY(mu_);  // by transfer
  std::unordered_map<uint64_t, RecvOp> receives_ LS_GUARDED_BY(mu_);
  std::unordered_map<PeerKey, std::list<uint64_t>, PeerKeyHash> posted_ LS_GUARDED_BY(mu_);
  std::unordered_map<PeerKey, std::list<Arrival>, PeerKeyHash> arrivals_ LS_GUARDED_BY(mu_);
  std::map<Transfer, PeerKey> announced_ LS_GUARDED_BY(mu_);  // announcements in arrivals_
  std::map<Transfer, uint64_t> pulls_ LS_GUARDED_BY(mu_);     // receives that met one
  std::set<std::tuple<Time, bool, uint64_t>> deadlines_ LS_GUARDED_BY(mu_);
  Time next_wake_ LS_GUARDED_BY(mu_) = Time::max();
  std::chrono::milliseconds heartbeat_ LS_GUARDED_BY(mu_){0};
  Time last_check_ LS_GUARDED_BY(mu_);
  Time next_check_ LS_GUARDED_BY(mu_) = Time::max();
  std::map<StepId, Status> aborted_ LS_GUARDED_BY(mu_);
  std::set<StepId> ended_ LS_GUARDED_BY(mu_);
  std::deque<StepId> ended_order_ LS_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, std::weak_ptr<Region>> regions_ LS_GUARDED_BY(mu_);
  bool closed_ LS_GUARDED_BY(mu_) = false;
};

}  // namespace lockstep::net::internal
