// gRPC: links over TCP with mutual TLS, for networks that are not trusted; and without TLS where a
// firewall leaves one port open. Both ends prove that they know the job's secret. Proxies in the
// environment are ignored.
#pragma once

#include <memory>
#include <string>

#include "lockstep/net/grpc/grpc_door.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net {

struct GrpcOptions {
  // Where this task listens, and what peers call it: a name or an address of this machine. Nothing
  // else is bound. With TLS the certificate must be for this host.
  std::string host = "127.0.0.1";
  // The first free port of these; 0: any free port.
  int first_port = 0;
  int last_port = 0;
  // PEM texts: the authority of this job's tasks, this task's certificate and key. All or none.
  std::string ca_certificates = {};
  std::string certificate = {};
  std::string private_key = {};
  // Allows plain TCP, or a job without a secret, beyond loopback.
  bool insecure = false;
  // Links come in there instead: host and ports above are not bound. Must be open.
  std::shared_ptr<GrpcDoor> door = nullptr;

  bool tls() const { return !certificate.empty(); }
};

// Errors of the factory: InvalidArgument, PermissionDenied beyond loopback without TLS and secret,
// FailedPrecondition for a host that is not of this machine, AlreadyExists when no port is free.
LinkFactory GrpcFactory(GrpcOptions options);

}  // namespace lockstep::net
