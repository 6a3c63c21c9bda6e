#include "lockstep/net/waiter.h"

#include <utility>

#include "lockstep/base/mutex.h"

namespace lockstep::net {

struct Waiter::State {
  explicit State(Progress& p) : progress(p) {}

  void Done(const Status& status) {
    if (!status.ok()) {
      MutexLock lock(mu);
      if (error.ok()) {
        error = status;
      }
    }
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      progress.Notify(pending);
    }
  }

  Progress& progress;
  std::atomic<int32_t> pending{0};
  Mutex mu;
  Status error LS_GUARDED_BY(mu);
};

Waiter::Waiter(Transport& transport)
    : progress_(transport.progress()), state_(std::make_shared<State>(transport.progress())) {}

Waiter::~Waiter() {
  progress_.Await(state_->pending);
}

SendDone Waiter::Sent() {
  state_->pending.fetch_add(1, std::memory_order_relaxed);
  return [state = state_](const Status& status) { state->Done(status); };
}

RecvDone Waiter::Received(MessageHeader* header) {
  state_->pending.fetch_add(1, std::memory_order_relaxed);
  return [state = state_, header](const Status& status, const MessageHeader& received) {
    if (header != nullptr && status.ok()) {
      *header = received;
    }
    state->Done(status);
  };
}

Status Waiter::Wait() {
  progress_.Await(state_->pending);
  MutexLock lock(state_->mu);
  return std::exchange(state_->error, OkStatus());
}

Status SendAndWait(Transport& transport, PeerId to, const MessageKey& key,
                   const MessageHeader& header, const void* payload, const Deadline& deadline) {
  Waiter waiter(transport);
  transport.Send(to, key, header, payload, deadline, waiter.Sent());
  return waiter.Wait();
}

Result<MessageHeader> RecvAndWait(Transport& transport, PeerId from, const MessageKey& key,
                                  void* buffer, uint64_t capacity, const Deadline& deadline) {
  MessageHeader header;
  Waiter waiter(transport);
  transport.Recv(from, key, buffer, capacity, deadline, waiter.Received(&header));
  LS_TRY(waiter.Wait());
  return header;
}

Status SendTensor(Transport& transport, PeerId to, const MessageKey& key, const Tensor& tensor,
                  const Deadline& deadline) {
  return SendAndWait(transport, to, key, HeaderOf(tensor), tensor.data(), deadline);
}

Result<Tensor> RecvTensor(Transport& transport, PeerId from, const MessageKey& key,
                          const Deadline& deadline) {
  Tensor tensor;
  Waiter waiter(transport);
  transport.Recv(from, key, IntoTensor(&tensor), deadline, waiter.Received());
  LS_TRY(waiter.Wait());
  return tensor;
}

}  // namespace lockstep::net
