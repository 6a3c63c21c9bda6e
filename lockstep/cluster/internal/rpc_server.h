// RpcServer: listens at the address of a task, checks who calls, and hands calls to their handlers.
// RpcReply: how a handler answers, now or later, from any thread.
//
//   RpcHandlers handlers;
//   handlers["/lockstep.cluster.Worker/GetStatus"] =
//       [](RpcRequest request, std::shared_ptr<RpcReply> reply) { reply->Finish("..."); };
//   LS_ASSIGN_OR_RETURN(auto server, RpcServer::Start({.address = a, .handlers = handlers}));
//
// Handlers run on the transport's own few threads: they must not block. A method that nobody
// handles is UNIMPLEMENTED. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/net/address.h"
#include "lockstep/net/grpc/grpc_door.h"

namespace lockstep::cluster::internal {

struct RpcRequest {
  std::string body;
  // When the caller gives up.
  Deadline deadline = Deadline::Infinite();
};

class RpcReply {
 public:
  RpcReply() = default;
  RpcReply(const RpcReply&) = delete;
  RpcReply& operator=(const RpcReply&) = delete;
  virtual ~RpcReply() = default;

  // Once; what comes later is dropped. A reply that is destroyed without it is INTERNAL.
  virtual void Finish(Result<std::string> result) = 0;
  // Calls `cancelled`, at most once, when the caller has gone or given up; at once if it has.
  // Dropped by Finish.
  virtual void OnCancel(std::function<void()> cancelled) = 0;
};

using RpcHandler = std::function<void(RpcRequest, std::shared_ptr<RpcReply>)>;
using RpcHandlers = std::map<std::string, RpcHandler, std::less<>>;

class RpcServer {
 public:
  struct Options {
    net::Address address;
    SecurityOptions security = {};
    RpcHandlers handlers = {};
    // Of one call, all frames together.
    uint64_t max_body_bytes = uint64_t{8} << 30;
    // Data links come in at the same port, through this; null: none do. Must be closed before
    // Shutdown.
    std::shared_ptr<net::GrpcDoor> door = nullptr;
    // Called with the address of a caller that does not know the job's secret; must not block.
    std::function<void(const std::string&)> on_stranger = nullptr;
  };

  // Binds every address that the host's name stands for, and nothing else. Errors name the address:
  // INVALID_ARGUMENT for a name that cannot be resolved, FAILED_PRECONDITION for an address that is
  // not of this machine, ALREADY_EXISTS for a port in use, PERMISSION_DENIED.
  static Result<std::unique_ptr<RpcServer>> Start(Options options);

  virtual ~RpcServer() = default;

  // What was bound: the same, or what was found for port 0.
  virtual int port() const = 0;

  // Takes no more calls, gives those that run until the deadline, then cancels them, and returns
  // when every one was answered. The destructor does it with no time left.
  virtual void Shutdown(const Deadline& deadline) = 0;
};

}  // namespace lockstep::cluster::internal
