// CallQueue: the calls of one group, carried out one at a time in the order in which they were
// added, by a thread of the queue or by whoever waits for one of them: a call that is waited for at
// once needs no change of threads. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "lockstep/base/mutex.h"
#include "lockstep/collective/call.h"

namespace lockstep::collective::internal {

class CallQueue {
 public:
  using Execute = std::function<Status(const Call&, const Deadline&)>;
  using Done = std::function<void(const Status&)>;

  struct Entry {
    Call call;
    Deadline deadline = Deadline::Infinite();
    Done done;
    // With the queue's mutex:
    bool ended = false;
    Status status;
  };

  explicit CallQueue(Execute execute) : execute_(std::move(execute)) {}

  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  ~CallQueue() { Close(); }

  // With `in_background` the queue's thread begins at once.
  std::shared_ptr<Entry> Add(Call call, const Deadline& deadline, Done done, bool in_background)
      LS_EXCLUDES(mu_);
  Status Wait(const Entry& entry) LS_EXCLUDES(mu_);
  bool Ended(const Entry& entry) LS_EXCLUDES(mu_);
  // Calls that have not begun end with Cancelled, as do all that are added later; waits for the one
  // that is running.
  void Close() LS_EXCLUDES(mu_);

 private:
  void RunFirst() LS_REQUIRES(mu_);
  void ThreadMain() LS_EXCLUDES(mu_);

  const Execute execute_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::shared_ptr<Entry>> entries_ LS_GUARDED_BY(mu_);
  bool running_ LS_GUARDED_BY(mu_) = false;  // somebody carries out a call
  bool closed_ LS_GUARDED_BY(mu_) = false;
  std::jthread thread_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::collective::internal
