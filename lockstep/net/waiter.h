// Waiter: waits for several operations at once and keeps the first error.
//
//   Waiter waiter(transport);
//   transport.Send(left, key, header, data, deadline, waiter.Sent());
//   transport.Recv(right, key, buffer, bytes, deadline, waiter.Received());
//   LS_TRY(waiter.Wait());
//
// Wait ends because every operation does, by its deadline at the latest. One thread adds and waits;
// it may add again after Wait. A Waiter that goes out of scope waits first: buffers stay valid.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lockstep/net/transport.h"

namespace lockstep::net {

class Waiter {
 public:
  explicit Waiter(Transport& transport);
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  // Callbacks for one more operation.
  SendDone Sent();
  // Stores the header of what came, if `header` is not null.
  RecvDone Received(MessageHeader* header = nullptr);

  // The first error since the last Wait.
  Status Wait();

 private:
  struct State;

  Progress& progress_;
  std::shared_ptr<State> state_;
};

// One operation, waited for.
Status SendAndWait(Transport& transport, PeerId to, const MessageKey& key,
                   const MessageHeader& header, const void* payload, const Deadline& deadline);
Result<MessageHeader> RecvAndWait(Transport& transport, PeerId from, const MessageKey& key,
                                  void* buffer, uint64_t capacity, const Deadline& deadline);
// Tensors, with buffers of their own.
Status SendTensor(Transport& transport, PeerId to, const MessageKey& key, const Tensor& tensor,
                  const Deadline& deadline);
Result<Tensor> RecvTensor(Transport& transport, PeerId from, const MessageKey& key,
                          const Deadline& deadline);

}  // namespace lockstep::net
