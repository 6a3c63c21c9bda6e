// Work: a call that was started. Ends by the deadlines of the calls up to it at the latest. A
// handle; dropping it does not end the call. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/collective/internal/call_queue.h"

namespace lockstep::collective {

class Work {
 public:
  Work(std::shared_ptr<internal::CallQueue> queue,
       std::shared_ptr<internal::CallQueue::Entry> entry)
      : queue_(std::move(queue)), entry_(std::move(entry)) {}

  // Returns when the call has ended; carries out calls on this thread where nobody else does.
  Status Wait() const { return queue_->Wait(*entry_); }

  bool ended() const { return queue_->Ended(*entry_); }

 private:
  std::shared_ptr<internal::CallQueue> queue_;
  std::shared_ptr<internal::CallQueue::Entry> entry_;
};

}  // namespace lockstep::collective
