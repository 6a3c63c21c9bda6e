// StepLink: the rendezvous of one run of a graph's parts on this task. Within the task tensors meet
// in memory; for another task they are given to a TensorSender, and what others send is put into
// the same memory as it arrives. A deadline bounds every transfer. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/exec/local_rendezvous.h"
#include "lockstep/exec/rendezvous.h"

namespace lockstep::cluster {

// Sends a tensor to another task. `done` is called exactly once; Cancel ends it early.
class TensorSender {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void Cancel() = 0;
  };

  virtual ~TensorSender() = default;
  virtual std::shared_ptr<Pending> Send(int peer, const exec::TransferKey& key,
                                        const Tensor& tensor, const Deadline& deadline,
                                        std::function<void(const Status&)> done) = 0;
};

class StepLink : public exec::Rendezvous {
 public:
  // `local` and `sender` must outlive it, and every callback of it.
  StepLink(exec::LocalRendezvous& local, TensorSender& sender, const Deadline& deadline)
      : local_(local), sender_(sender), deadline_(deadline) {}

  // Waits for what is on its way.
  ~StepLink() override;

  void Send(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& tensor,
            SendDone done) override LS_EXCLUDES(mu_);
  void Recv(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& into,
            RecvDone done) override;
  void Abort(uint64_t scope, uint64_t step, const Status& status) override LS_EXCLUDES(mu_);
  void Cleanup(uint64_t scope, uint64_t step) override;

 private:
  exec::LocalRendezvous& local_;
  TensorSender& sender_;
  const Deadline deadline_;
  Mutex mu_;
  CondVar idle_;
  Status aborted_ LS_GUARDED_BY(mu_);
  uint64_t next_ LS_GUARDED_BY(mu_) = 0;
  int sending_ LS_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::shared_ptr<TensorSender::Pending>> pending_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
