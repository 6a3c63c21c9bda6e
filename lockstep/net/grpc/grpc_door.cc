#include "lockstep/net/grpc/grpc_door.h"

#include <utility>

#include "lockstep/net/grpc/grpc_entrance.h"
#include "lockstep/net/grpc/grpc_lobby.h"

namespace lockstep::net {

void GrpcDoor::Open(std::string address) {
  const MutexLock lock(mu_);
  address_ = std::move(address);
}

void GrpcDoor::Close() {
  std::shared_ptr<grpc_link::Lobby> lobby;
  {
    const MutexLock lock(mu_);
    closed_ = true;
    address_.clear();
    lobby = std::move(lobby_);
    lobby_ = nullptr;
  }
  if (lobby != nullptr) {
    lobby->Close();
  }
}

std::string GrpcDoor::address() const {
  const MutexLock lock(mu_);
  return address_;
}

void GrpcDoor::LeadTo(std::shared_ptr<grpc_link::Lobby> lobby) {
  {
    const MutexLock lock(mu_);
    if (!closed_) {
      lobby_ = std::move(lobby);
      return;
    }
  }
  if (lobby != nullptr) {
    lobby->Close();
  }
}

std::shared_ptr<grpc_link::Lobby> GrpcDoor::lobby() const {
  const MutexLock lock(mu_);
  return lobby_;
}

namespace grpc_link {

bool IsLink(const grpc::GenericCallbackServerContext& context) {
  return context.method() == kMethod;
}

grpc::ServerGenericBidiReactor* Enter(GrpcDoor& door, grpc::GenericCallbackServerContext* context) {
  if (const std::shared_ptr<Lobby> lobby = door.lobby(); lobby != nullptr) {
    return lobby->Receive(context);
  }
  const AcceptedStream accepted = AcceptStream(context);
  accepted.stream->End(Unavailable("this task makes no gRPC links at the moment"));
  return accepted.reactor;
}

void TuneForLinks(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrameBytes);
}

}  // namespace grpc_link
}  // namespace lockstep::net
