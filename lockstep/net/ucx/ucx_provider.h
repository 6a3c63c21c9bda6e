// UCX: links between hosts of a trusted network, by whatever transport UCX finds (TCP, RDMA). There
// is no encryption; every frame carries a token that only members of the job can compute, so that
// frames of others are dropped. A peer that dies is noticed by UCX; one that is stopped is not.
#pragma once

#include <memory>
#include <string>

#include "lockstep/net/wire_up.h"

namespace lockstep::net {

struct UcxOptions {
  // Where this task listens: UCX uses the interfaces that have this host's addresses, and no
  // others. Beyond loopback only if `insecure`. Empty: what the names below say, without a check.
  std::string host = {};
  // It listens at a port of these, over TCP; 0: any free port.
  int first_port = 0;
  int last_port = 0;
  bool insecure = false;
  // UCX's own names; empty: all that it finds.
  std::string transports = {};   // "tcp", "rc", ...
  std::string net_devices = {};  // "lo", "eth0", ...: also what it listens on
};

// Errors of the factory: PermissionDenied beyond loopback, InvalidArgument and FailedPrecondition
// for a host that is not of this machine, Unavailable where UCX finds no way to communicate.
LinkFactory UcxFactory(UcxOptions options);

}  // namespace lockstep::net
