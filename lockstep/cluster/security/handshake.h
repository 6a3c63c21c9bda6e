// TryHandshake: what a server that cannot be reached has against this task. gRPC says no more than
// that a connection failed; this makes one of its own and looks who refuses whom, and why.
#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster {

// OK if both ends agree, so that trying again can help. UNAUTHENTICATED if it cannot: one end has
// certificates and the other none, or one refuses the other's; the message says which, and why, but
// not where. UNAVAILABLE if nobody listens or answers in time. Nothing is sent beyond the
// handshake. Thread-safe.
Status TryHandshake(const net::Address& address, const SecurityOptions& security,
                    const Deadline& deadline);

}  // namespace lockstep::cluster
