// StepLink: the rendezvous of one run of a graph's parts on this task. Within the task tensors meet
// in memory; those of other tasks travel over the transport, straight from the sender's tensor into
// the receiver's. A deadline bounds every one of these. Thread-safe.
#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/exec/local_rendezvous.h"
#include "lockstep/exec/rendezvous.h"
#include "lockstep/net/transport.h"

namespace lockstep::cluster {

class StepLink : public exec::Rendezvous {
 public:
  // Tasks have the same numbers in the transport. Both must outlive every callback.
  StepLink(exec::LocalRendezvous& local, net::Transport& transport, const Deadline& deadline)
      : local_(local), transport_(transport), deadline_(deadline) {}

  void Send(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& tensor,
            SendDone done) override;
  void Recv(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& into,
            RecvDone done) override;
  void Abort(uint64_t scope, uint64_t step, const Status& status) override;
  void Cleanup(uint64_t scope, uint64_t step) override;

  net::Progress* progress() override { return &transport_.progress(); }

 private:
  exec::LocalRendezvous& local_;
  net::Transport& transport_;
  const Deadline deadline_;
};

}  // namespace lockstep::cluster
