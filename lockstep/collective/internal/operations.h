// Operations: sends and receives of one call that are waited for together, and what their failures
// mean: a member that did not come, one that is lost, or the reason why another member has ended
// the call. The first failure that is no passed deadline ends everything of the group, so that
// nobody waits for what will not come.
//
// One thread adds and waits; what goes out of scope waits first, so that buffers stay valid.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/collective/internal/group_info.h"

namespace lockstep::collective::internal {

class Operations {
 public:
  // `deadline` is that of all of them. `what` is said of members of whom nothing came in time, such
  // as "did not come".
  Operations(const MemberList& group, const Deadline& deadline, std::string what);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  ~Operations();

  // Callbacks for one more operation with `member`. `check` is called with the size of what
  // arrived, from any thread; its error is one of the operation.
  net::SendDone Sending(int member);
  net::RecvDone Receiving(int member, std::function<Status(uint64_t bytes)> check = nullptr);

  // Errors: DeadlineExceeded that names all members of whom something is missing, Unavailable that
  // names who is lost, or what ended the call elsewhere.
  Status Wait();

 private:
  struct State;

  const MemberList& group_;
  const Deadline deadline_;
  const Deadline::Clock::time_point start_;
  const std::string what_;
  std::shared_ptr<State> state_;
};

// The code and the message without context, as it is passed on to others.
Status WithoutContext(const Status& status);

}  // namespace lockstep::collective::internal
