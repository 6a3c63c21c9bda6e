// Handlers that are given their request as a message.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "lockstep/cluster/internal/proto_io.h"
#include "lockstep/cluster/internal/rpc_server.h"

namespace lockstep::cluster::internal {

// `handle(target, message, reply)`; a body that is no message is refused before.
template <class Request, class Target, class Handle>
void AddHandler(RpcHandlers& handlers, std::string_view method, std::shared_ptr<Target> target,
                Handle handle) {
  handlers.emplace(method, [target = std::move(target), handle](
                               const RpcRequest& request, const std::shared_ptr<RpcReply>& reply) {
    const Result<Request> message = FromBytes<Request>(request.body);
    if (!message.ok()) {
      reply->Finish(message.status());
      return;
    }
    handle(*target, *message, reply);
  });
}

// A reply that carries a status only.
inline void FinishEmpty(const std::shared_ptr<RpcReply>& reply, const Status& status) {
  if (status.ok()) {
    reply->Finish(std::string());
  } else {
    reply->Finish(status);
  }
}

}  // namespace lockstep::cluster::internal
