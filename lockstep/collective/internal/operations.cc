#include "lockstep/collective/internal/operations.h"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <utility>

#include "lockstep/base/mutex.h"

namespace lockstep::collective::internal {

Status WithoutContext(const Status& status) {
  return status.ok() ? status : Status(status.code(), status.message());
}

struct Operations::State {
  State(net::Transport& t, uint64_t group_scope, const Deadline& call_deadline)
      : transport(t), scope(group_scope), deadline(call_deadline) {}

  void Done(int member, bool received, const Status& status) {
    if (!status.ok()) {
      const bool late = status.code() == StatusCode::kDeadlineExceeded && !deadline.infinite() &&
                        transport.progress().Now() >= deadline.when();
      bool first = false;
      {
        MutexLock lock(mu);
        if (late) {
          (received ? missing : not_taken).insert(member);
        } else if (cause.ok()) {
          cause = WithoutContext(status);
          first = true;
        }
      }
      if (first) {
        transport.AbortScope(scope, WithoutContext(status));
      }
    }
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      transport.progress().Notify(pending);
    }
  }

  net::Transport& transport;
  const uint64_t scope;
  const Deadline deadline;
  std::atomic<int32_t> pending{0};
  Mutex mu;
  Status cause LS_GUARDED_BY(mu);  // the first failure that is no passed deadline
  std::set<int> missing LS_GUARDED_BY(mu);
  std::set<int> not_taken LS_GUARDED_BY(mu);
};

Operations::Operations(const MemberList& group, const Deadline& deadline, std::string what)
    : group_(group),
      deadline_(deadline),
      start_(group.transport.progress().Now()),
      what_(std::move(what)),
      state_(std::make_shared<State>(group.transport, group.scope, deadline)) {}

Operations::~Operations() {
  group_.transport.progress().Await(state_->pending);
}

net::SendDone Operations::Sending(int member) {
  state_->pending.fetch_add(1, std::memory_order_relaxed);
  return [state = state_, member](const Status& status) { state->Done(member, false, status); };
}

net::RecvDone Operations::Receiving(int member, std::function<Status(uint64_t bytes)> check) {
  state_->pending.fetch_add(1, std::memory_order_relaxed);
  return [state = state_, member, check = std::move(check)](const Status& status,
                                                            const net::MessageHeader& header) {
    state->Done(member, true, status.ok() && check != nullptr ? check(header.bytes) : status);
  };
}

Status Operations::Wait() {
  group_.transport.progress().Await(state_->pending);
  MutexLock lock(state_->mu);
  if (!state_->cause.ok()) {
    return state_->cause;
  }
  const std::set<int>& members = state_->missing.empty() ? state_->not_taken : state_->missing;
  if (members.empty()) {
    return OkStatus();
  }
  std::string names;
  for (const int member : members) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", group_.task_name(member));
  }
  const std::chrono::duration<double> waited = deadline_.when() - start_;
  return DeadlineExceeded(fmt::format(
      "{} {} within {:.3f} s", names,
      state_->missing.empty() ? std::string("did not take what was sent") : what_, waited.count()));
}

}  // namespace lockstep::collective::internal
