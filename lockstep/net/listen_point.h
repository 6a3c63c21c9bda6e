// What a server's host name stands for, and whether this machine can listen there.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/net/address.h"

namespace lockstep::net {

struct ListenPoint {
  // "127.0.0.1", "::1", with a zone where there is one.
  std::string host;
  bool ipv6 = false;
  bool loopback = false;

  // "127.0.0.1:80", "[::1]:80".
  std::string WithPort(int port) const;
};

// Every address that the host stands for, each once. INVALID_ARGUMENT with the resolver's reason.
Result<std::vector<ListenPoint>> ResolveHost(const Address& address);

// Binds a socket there and closes it again: what would be wrong with listening. `address` is what
// the user wrote, for the message. Answers the port, found by the system if it is 0.
Result<int> TryListen(const Address& address, const ListenPoint& point, int port);

}  // namespace lockstep::net
