// LocalRendezvous: the rendezvous of devices that share an address space. The receiver gets the
// sender's tensor, without a copy.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>

#include "lockstep/base/mutex.h"
#include "lockstep/exec/rendezvous.h"

namespace lockstep::exec {

class LocalRendezvous : public Rendezvous {
 public:
  LocalRendezvous() = default;
  LocalRendezvous(const LocalRendezvous&) = delete;
  LocalRendezvous& operator=(const LocalRendezvous&) = delete;
  // No receive may be waiting.
  ~LocalRendezvous() override;

  void Send(PeerNumber peer, const TransferKey& key, const Tensor& tensor, SendDone done) override;
  void Recv(PeerNumber peer, const TransferKey& key, const Tensor& into, RecvDone done) override;
  void Abort(uint64_t scope, uint64_t step, const Status& status) override;
  void Cleanup(uint64_t scope, uint64_t step) override;

  // Steps that are not cleaned up.
  size_t num_steps() const;

 private:
  // One side has come.
  struct Entry {
    Tensor tensor;
    RecvDone receiver;
  };

  struct Step {
    Status aborted;
    std::unordered_map<uint64_t, Entry> entries;
  };

  mutable Mutex mu_;
  std::map<std::pair<uint64_t, uint64_t>, Step> steps_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
