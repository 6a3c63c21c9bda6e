// The side of a GrpcDoor that a gRPC server sees.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "lockstep/net/grpc/grpc_door.h"

namespace lockstep::net::grpc_link {

// Whether a call is for the door.
bool IsLink(const grpc::GenericCallbackServerContext& context);

// Takes such a call. Where no links are made (yet) it is UNAVAILABLE, and the peer tries again.
grpc::ServerGenericBidiReactor* Enter(GrpcDoor& door, grpc::GenericCallbackServerContext* context);

// gRPC's defaults are for small messages: its reads, its window per stream and its frames.
void TuneForLinks(grpc::ServerBuilder& builder);

}  // namespace lockstep::net::grpc_link
