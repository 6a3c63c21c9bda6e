#include "lockstep/cluster/internal/coordinator_wire.h"

#include <fmt/format.h>

#include "lockstep/cluster/internal/rpc_status.h"

namespace lockstep::cluster::internal {

wire::View ToWire(const MembershipView& view) {
  wire::View message;
  message.set_number(view.number);
  message.set_job_over(view.job_over);
  for (size_t i = 0; i < view.members.size(); ++i) {
    const Member& member = view.members[i];
    if (member.state == MemberState::kAbsent) {
      continue;
    }
    wire::Member* added = message.add_members();
    added->set_number(static_cast<int32_t>(i));
    added->set_state(static_cast<int>(member.state));
    added->set_incarnation(member.incarnation);
    if (!member.reason.ok()) {
      added->set_reason(EncodeStatus(member.reason));
    }
  }
  return message;
}

Result<MembershipView> FromWire(const wire::View& message, int tasks) {
  MembershipView view;
  view.number = message.number();
  view.job_over = message.job_over();
  view.members.resize(static_cast<size_t>(tasks));
  for (const wire::Member& member : message.members()) {
    if (member.number() < 0 || member.number() >= tasks || member.state() < 0 ||
        member.state() > static_cast<int>(MemberState::kLost)) {
      return InvalidArgument(fmt::format("a view with task {} in state {}, of a cluster of {}",
                                         member.number(), member.state(), tasks));
    }
    Member& read = view.members[static_cast<size_t>(member.number())];
    read.state = static_cast<MemberState>(member.state());
    read.incarnation = member.incarnation();
    if (!member.reason().empty()) {
      read.reason = DecodeStatus(member.reason());
    }
  }
  return view;
}

}  // namespace lockstep::cluster::internal
