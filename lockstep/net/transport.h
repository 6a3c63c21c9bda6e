// Transport: moves messages between the tasks of a job. One per task; several live in one process.
//
//   transport.Send(to, key, HeaderOf(tensor), tensor.data(), deadline, done);
//   transport.Recv(from, key, IntoTensor(&tensor), deadline, done);
//
// A message and a receive of one key meet in either order; several of one key meet first to first.
// `done` is called exactly once, from any thread, perhaps before the call returns; it must not
// block. The payload of a send stays untouched until then, the buffer of a receive belongs to the
// transport. Small messages leave at once and need no receiver; large ones wait at the sender until
// they are received, and so do small ones when too many were not received yet. Errors:
// DeadlineExceeded, Unavailable (the peer is lost; names it), what Abort was given, the receiver's
// refusal, InvalidArgument (does not fit, no such task). All methods are thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/net/link_kind.h"
#include "lockstep/net/message.h"
#include "lockstep/net/progress.h"
#include "lockstep/net/region.h"

namespace lockstep::net {

namespace internal {
class Engine;
}

using SendDone = std::function<void(const Status&)>;
using RecvDone = std::function<void(const Status&, const MessageHeader&)>;
// Answers where the payload of this header goes: at least header.bytes, valid until `done`.
using Locate = std::function<Result<void*>(const MessageHeader&)>;

// Allocates the tensor that the header describes. A header whose bytes do not match its shape, as
// of an encoded payload, is an error. `tensor` must live until `done`.
Locate IntoTensor(Tensor* tensor);

// What went through the link to one peer since it was connected.
struct LinkStats {
  uint64_t sent_messages = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_messages = 0;
  uint64_t received_bytes = 0;
  // Summed over receives: from the call to its end.
  double receive_wait_seconds = 0;
};

class Transport {
 public:
  Transport(std::unique_ptr<Progress> progress, PeerId self, std::vector<std::string> tasks);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  ~Transport();

  PeerId self() const;
  int num_tasks() const;
  // "/job:worker/task:2".
  const std::string& task_name(PeerId task) const;

  // `payload` has header.bytes bytes.
  void Send(PeerId to, const MessageKey& key, const MessageHeader& header, const void* payload,
            const Deadline& deadline, SendDone done);
  // A message that is larger than `capacity` is refused: an error at both ends.
  void Recv(PeerId from, const MessageKey& key, void* buffer, uint64_t capacity,
            const Deadline& deadline, RecvDone done);
  // `locate` is called from any thread and must not block; its error refuses the message.
  void Recv(PeerId from, const MessageKey& key, Locate locate, const Deadline& deadline,
            RecvDone done);

  // Ends what is pending in this step with `why`, here, and everything of it that comes later.
  void Abort(uint64_t scope, uint64_t step, const Status& why);
  void AbortScope(uint64_t scope, const Status& why);
  // Asks a peer to do the same.
  void AbortAt(PeerId peer, uint64_t scope, uint64_t step, const Status& why);
  // Nothing of this step (or scope) is of interest any more: what is pending or arrives late is
  // dropped, and what Abort noted is forgotten.
  void EndStep(uint64_t scope, uint64_t step);
  void EndScope(uint64_t scope);

  // Declares a peer lost: everything pending with it fails with `why` and its name.
  void FailPeer(PeerId peer, const Status& why);
  // OK while it is connected.
  Status peer_status(PeerId peer) const;
  // Chosen anew at every start of a task; 0 if never connected.
  uint64_t incarnation(PeerId peer) const;
  Result<LinkKind> link_kind(PeerId peer) const;
  LinkStats stats(PeerId peer) const;
  // Messages that arrived and that nobody received yet, and pending operations: for tests.
  int64_t num_pending() const;

  // Memory that peers of kinds self, sim and shm can map.
  Result<std::shared_ptr<Region>> CreateRegion(size_t bytes);
  // `number` is Region::number() of a region that `owner` created and still holds. Unimplemented
  // where owner and this task share no memory.
  Result<std::shared_ptr<Region>> MapRegion(PeerId owner, uint64_t number,
                                            const Deadline& deadline);

  // The transport's clock, which may be a virtual one.
  Deadline After(std::chrono::milliseconds delay) const;

  Progress& progress() const { return *progress_; }

  // Ends orderly: waits until everything that was sent is on its way, tells the peers, and fails
  // what is still pending with Cancelled. The destructor does it with a deadline of one second.
  void Close(const Deadline& deadline);

  // Used by whoever connects: links are attached to the engine, which takes part in `progress`.
  internal::Engine& engine() const { return *engine_; }

  // Kept until the links are closed.
  void Keep(std::shared_ptr<void> provider) { kept_.push_back(std::move(provider)); }

 private:
  std::unique_ptr<internal::Engine> engine_;
  std::unique_ptr<Progress> progress_;  // ends before the engine
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace lockstep::net
