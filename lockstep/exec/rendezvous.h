// Rendezvous: where the parts of a placed step meet. A part gives a tensor under a key, another one
// asks for it; either may come first, and each key is used once in a step. Nothing here blocks:
// completion is a callback, called exactly once, on any thread, possibly before the call returns.
// Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/result.h"
#include "lockstep/net/progress.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::exec {

struct TransferKey {
  // A registered graph.
  uint64_t scope = 0;
  uint64_t step = 0;
  // Number of the transfer within the graph.
  uint64_t item = 0;

  friend auto operator<=>(const TransferKey&, const TransferKey&) = default;
};

// The task at the other end of a transfer, by number.
using PeerNumber = int;
inline constexpr PeerNumber kThisTask = -1;

// The number of the task that has a device (a full name).
using PeerResolver = std::function<Result<PeerNumber>(const std::string& device)>;

class Rendezvous {
 public:
  using SendDone = std::function<void(const Status& status)>;
  using RecvDone = std::function<void(const Status& status, Tensor tensor)>;

  virtual ~Rendezvous() = default;

  // `tensor` is shared, and must not be written again before `done`; within a task, not before the
  // receiver has let go of it.
  virtual void Send(PeerNumber peer, const TransferKey& key, const Tensor& tensor,
                    SendDone done) = 0;

  // `into` is a tensor of the expected type and shape that the elements may be written to; what
  // `done` is given is either it or the sender's own tensor. Type and shape of that are as the
  // sender says.
  virtual void Recv(PeerNumber peer, const TransferKey& key, const Tensor& into, RecvDone done) = 0;

  // Ends all transfers of a step on this task, those under way and those to come, with `status`.
  // The first call counts. Their callbacks are called soon, whatever other tasks do.
  virtual void Abort(uint64_t scope, uint64_t step, const Status& status) = 0;

  // Forgets a step that no part of this task runs any more.
  virtual void Cleanup(uint64_t scope, uint64_t step) = 0;

  // How a thread waits for tensors of other tasks, whose transfers end by themselves then, by a
  // deadline at the latest. Null: it is told when they come, as of those within the task.
  virtual net::Progress* progress() { return nullptr; }
};

}  // namespace lockstep::exec
