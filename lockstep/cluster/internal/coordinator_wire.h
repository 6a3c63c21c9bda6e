// Views on the wire.
#pragma once

#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/cluster/internal/control.pb.h"

namespace lockstep::cluster::internal {

wire::View ToWire(const MembershipView& view);
// INVALID_ARGUMENT for what is no view of a cluster of this size.
Result<MembershipView> FromWire(const wire::View& message, int tasks);

}  // namespace lockstep::cluster::internal
