#include "lockstep/exec/internal/plan_transfers.h"

#include <fmt/format.h>
#include <immintrin.h>

#include "lockstep/exec/step_status.h"

namespace lockstep::exec {

PlanTransfers::PlanTransfers(std::vector<PlanTransfer> sends, std::vector<PlanTransfer> recvs)
    : sends_(std::move(sends)) {
  for (PlanTransfer& transfer : recvs) {
    recvs_.push_back(std::make_unique<Recv>());
    recvs_.back()->transfer = std::move(transfer);
  }
}

Status PlanTransfers::ResolvePeers(const PeerResolver& resolver) {
  for (PlanTransfer& transfer : sends_) {
    LS_ASSIGN_OR_RETURN(transfer.peer, resolver(transfer.device));
  }
  for (const auto& recv : recvs_) {
    LS_ASSIGN_OR_RETURN(recv->transfer.peer, resolver(recv->transfer.device));
  }
  return OkStatus();
}

Status PlanTransfers::Start(const TransferContext& ctx) {
  ctx_ = &ctx;
  for (const auto& recv : recvs_) {
    recv->pending.store(1, std::memory_order_relaxed);
    recv->status = OkStatus();
    if (!recv->own.has_value() || !recv->own.unique()) {
      LS_ASSIGN_OR_RETURN(recv->own, Tensor::Allocate(recv->transfer.dtype, recv->transfer.shape));
    }
  }
  {
    const MutexLock lock(mu_);
    send_status_ = OkStatus();
    outstanding_ = static_cast<int>(recvs_.size());
  }
  for (size_t i = 0; i < recvs_.size(); ++i) {
    ctx.rendezvous->Recv(
        recvs_[i]->transfer.peer, KeyOf(recvs_[i]->transfer), recvs_[i]->own,
        [this, i](const Status& status, Tensor tensor) { OnRecv(i, status, std::move(tensor)); });
  }
  return OkStatus();
}

void PlanTransfers::Send(size_t send, const Tensor& tensor) {
  {
    const MutexLock lock(mu_);
    ++outstanding_;
  }
  const PlanTransfer& transfer = sends_[send];
  ctx_->rendezvous->Send(transfer.peer, KeyOf(transfer), tensor,
                         [this](const Status& status) { OnSent(status); });
}

void PlanTransfers::OnSent(const Status& status) {
  const MutexLock lock(mu_);
  if (!status.ok() && (send_status_.ok() || IsDerived(send_status_))) {
    send_status_ = status;
  }
  --outstanding_;
  changed_.NotifyAll();
}

void PlanTransfers::OnRecv(size_t recv, const Status& status, Tensor tensor) {
  Recv& slot = *recvs_[recv];
  const MutexLock lock(mu_);
  slot.status = status;
  slot.tensor = std::move(tensor);
  slot.pending.store(0, std::memory_order_release);
  --outstanding_;
  changed_.NotifyAll();
  // Under the lock: without it the step might be over already.
  if (net::Progress* progress = ProgressFor(slot); progress != nullptr) {
    progress->Notify(slot.pending);
  }
}

Status PlanTransfers::WaitFor(size_t recv) {
  const Recv& slot = *recvs_[recv];
  net::Progress* progress = ProgressFor(slot);
  if (progress == nullptr) {
    return WaitForLocal(slot);
  }
  progress->Await(slot.pending);
  return OkStatus();
}

net::Progress* PlanTransfers::ProgressFor(const Recv& recv) const {
  return recv.transfer.peer == kThisTask ? nullptr : ctx_->rendezvous->progress();
}

Status PlanTransfers::WaitForLocal(const Recv& recv) {
  constexpr int kSpins = 2000;
  const auto arrived = [&recv] { return recv.pending.load(std::memory_order_acquire) == 0; };
  for (int i = 0; i < kSpins; ++i) {
    if (arrived()) {
      return OkStatus();
    }
    _mm_pause();
  }
  const MutexLock lock(mu_);
  while (!arrived()) {
    if (!changed_.WaitUntil(mu_, ctx_->deadline) && !arrived()) {
      return DeadlineExceeded(fmt::format("'{}' has not come from {} within the step's deadline",
                                          recv.transfer.name, recv.transfer.device));
    }
  }
  return OkStatus();
}

Result<const Tensor*> PlanTransfers::Arrived(size_t recv) {
  const Recv& slot = *recvs_[recv];
  const PlanTransfer& transfer = slot.transfer;
  if (!slot.status.ok()) {
    return IsDerived(slot.status)
               ? slot.status
               : slot.status.With(fmt::format("receiving from {}", transfer.device));
  }
  const Tensor& tensor = slot.tensor;
  if (!tensor.has_value() || tensor.dtype() != transfer.dtype ||
      !(tensor.shape() == transfer.shape)) {
    return Internal(fmt::format("{} sent {} {}, expected {} {}", transfer.device,
                                tensor.has_value() ? DTypeName(tensor.dtype()) : "nothing",
                                tensor.has_value() ? tensor.shape().ToString() : "",
                                DTypeName(transfer.dtype), transfer.shape.ToString()));
  }
  return &slot.tensor;
}

Status PlanTransfers::SendError() {
  const MutexLock lock(mu_);
  return send_status_;
}

bool PlanTransfers::WaitForCallbacks(const Deadline& deadline) {
  const MutexLock lock(mu_);
  while (outstanding_ > 0) {
    if (!changed_.WaitUntil(mu_, deadline) && outstanding_ > 0) {
      return false;
    }
  }
  return true;
}

Status PlanTransfers::Finish(const Status& status) {
  Status result = status;
  if (result.ok() && !WaitForCallbacks(ctx_->deadline)) {
    result = DeadlineExceeded("what the step sends was not taken within its deadline");
  }
  const Status send_error = SendError();
  if (!send_error.ok() && (result.ok() || (IsDerived(result) && !IsDerived(send_error)))) {
    result = send_error;
  }
  if (!result.ok()) {
    ctx_->rendezvous->Abort(ctx_->scope, ctx_->step, StoppedBecauseOf(result));
    WaitForCallbacks(Deadline::Infinite());
  }
  for (const auto& recv : recvs_) {
    recv->tensor = Tensor();
  }
  ctx_ = nullptr;
  return result;
}

}  // namespace lockstep::exec
