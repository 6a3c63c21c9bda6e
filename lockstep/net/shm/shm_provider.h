// ShmProvider: connects processes of one host. A task listens on a local socket with a random name
// that no file stands for, so that nothing is left behind however it ends. Of two tasks the one
// with the higher number connects. Greeting: docs/protocol.md.
//
// Refused: other users, another job's secret, another task or incarnation than was announced.
#pragma once

#include <memory>
#include <string>

#include "lockstep/net/internal/link_provider.h"
#include "lockstep/net/internal/reactor.h"

namespace lockstep::net {

struct ShmOptions {
  // Large payloads are read straight from the other process where the system allows it.
  bool direct_reads = true;
};

// `reactor` must outlive the links.
Result<std::unique_ptr<internal::LinkProvider>> MakeShmProvider(
    const internal::TaskIdentity& identity, internal::Reactor& reactor, ShmOptions options);

// What tasks must have in common to be reached over shared memory: boot and network namespace.
Result<std::string> HostIdentity();

}  // namespace lockstep::net
