// PlanTransfers: what a plan gives to other devices and gets from them during one step. Receives
// are posted when the step starts, into memory that is kept between steps; the plan waits for each
// directly before its first use. One step at a time; callbacks come from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/exec/cancellation.h"
#include "lockstep/exec/rendezvous.h"
#include "lockstep/graph/kernel.h"

namespace lockstep::exec {

// One side of a transfer.
struct PlanTransfer {
  uint64_t item = 0;
  // The device at the other end.
  std::string device;
  // The node that sends or receives, for messages.
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;
  PeerNumber peer = kThisTask;
};

// The step that transfers belong to.
struct TransferContext {
  Rendezvous* rendezvous;
  uint64_t scope;
  uint64_t step;
  Deadline deadline;
  // May be null.
  const Cancellation* cancellation;
};

class PlanTransfers {
 public:
  PlanTransfers(std::vector<PlanTransfer> sends, std::vector<PlanTransfer> recvs);

  PlanTransfers(const PlanTransfers&) = delete;
  PlanTransfers& operator=(const PlanTransfers&) = delete;

  bool empty() const { return sends_.empty() && recvs_.size() == 0; }

  Status ResolvePeers(const PeerResolver& resolver);

  // Posts all receives.
  Status Start(const TransferContext& ctx) LS_EXCLUDES(mu_);

  void Send(size_t send, const Tensor& tensor) LS_EXCLUDES(mu_);

  bool HasArrived(size_t recv) const {
    return recvs_[recv]->pending.load(std::memory_order_acquire) == 0;
  }

  // Spins for some microseconds, and moves messages meanwhile if it waits for another task; then
  // sleeps.
  Status WaitFor(size_t recv) LS_EXCLUDES(mu_);

  // What arrived, checked against what was expected. Only after it has.
  Result<const Tensor*> Arrived(size_t recv);

  // Waits until everything sent has gone out, or, after an error, stops the step's transfers and
  // waits for the last callback. Returns the error that counts. Lets go of what was received.
  Status Finish(const Status& status) LS_EXCLUDES(mu_);

 private:
  struct Recv {
    PlanTransfer transfer;
    // Kept between steps.
    Tensor own;
    Tensor tensor;
    Status status;
    // 1 until it has arrived or failed.
    std::atomic<int32_t> pending = 0;
  };

  void OnSent(const Status& status) LS_EXCLUDES(mu_);
  void OnRecv(size_t recv, const Status& status, Tensor tensor) LS_EXCLUDES(mu_);
  Status SendError() LS_EXCLUDES(mu_);
  Status WaitForLocal(const Recv& recv) LS_EXCLUDES(mu_);
  // Null for a transfer within the task.
  net::Progress* ProgressFor(const Recv& recv) const;
  // False if the deadline passed first.
  bool WaitForCallbacks(const Deadline& deadline) LS_EXCLUDES(mu_);

  TransferKey KeyOf(const PlanTransfer& transfer) const {
    return {ctx_->scope, ctx_->step, transfer.item};
  }

  std::vector<PlanTransfer> sends_;
  std::vector<std::unique_ptr<Recv>> recvs_;
  const TransferContext* ctx_ = nullptr;
  Mutex mu_;
  CondVar changed_;
  int outstanding_ LS_GUARDED_BY(mu_) = 0;
  Status send_status_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
