// Free ports of the loopback interface, held until the tasks that are to listen on them do.
//
// A port is held by a socket that is bound to it and never listens: while it lives, the system
// gives the port to nobody who asks for any. A server that sets SO_REUSEADDR before it binds, as
// servers do, can listen on it all the same (Linux allows that as long as no other socket listens).
#pragma once

#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster {

struct HeldPort {
  lockstep::internal::Descriptor socket;
  net::Address address;
};

// `count` different ports on 127.0.0.1, or on ::1 where there is no IPv4. RESOURCE_EXHAUSTED if
// there are not so many.
Result<std::vector<HeldPort>> HoldLoopbackPorts(int count);

}  // namespace lockstep::cluster
