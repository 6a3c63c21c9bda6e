// RpcChannel: one connection to the server of a task, for any number of calls at a time. Connects
// when first used and again after it broke. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(auto channel, RpcChannel::Create({.address = a, .peer = name}));
//   LS_ASSIGN_OR_RETURN(const std::string reply, channel->Call(method, body, {.deadline = d}));
//
// Errors of the call itself come as the server gave them; of the connection as UNAVAILABLE,
// DEADLINE_EXCEEDED, CANCELLED and UNAUTHENTICATED, which name the peer, its address and the
// method.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster::internal {

// Called exactly once, from any thread; must not block.
using RpcDone = std::function<void(Result<std::string>)>;

// A call on its way.
class RpcPending {
 public:
  virtual ~RpcPending() = default;
  // Ends it with CANCELLED if it has not ended; the server is told.
  virtual void Cancel() = 0;
};

struct RpcOptions {
  Deadline deadline;
  // While nobody listens at the address, or when the connection breaks, wait and try again until
  // the deadline instead of failing: only for calls that may run twice. Call, not Start, gives up
  // with UNAUTHENTICATED where waiting cannot help, because one end refuses the other's TLS.
  bool wait_for_ready = false;
};

class RpcChannel {
 public:
  struct Options {
    net::Address address;
    // The task's name, for messages.
    std::string peer;
    SecurityOptions security = {};
  };

  static Result<std::shared_ptr<RpcChannel>> Create(const Options& options);

  virtual ~RpcChannel() = default;

  virtual std::shared_ptr<RpcPending> Start(std::string_view method, std::string body,
                                            const RpcOptions& options, RpcDone done) = 0;

  // The same, waited for. Not from a callback.
  Result<std::string> Call(std::string_view method, std::string body, const RpcOptions& options);

  virtual const std::string& peer() const = 0;

 protected:
  // UNAUTHENTICATED if one end refuses the other whatever is called.
  virtual Status CheckHandshake(const Deadline& deadline) const = 0;
};

}  // namespace lockstep::cluster::internal
