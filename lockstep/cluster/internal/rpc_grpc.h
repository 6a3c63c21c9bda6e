// What both ends of a control channel share of gRPC. The fence: only rpc_*.cc includes this.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/cluster/security/security_options.h"

namespace lockstep::cluster::internal {

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const SecurityOptions& options);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const SecurityOptions& options);

// gRPC counts in the system's clock.
std::chrono::system_clock::time_point ToSystemTime(const Deadline& deadline);
Deadline FromSystemTime(std::chrono::system_clock::time_point when);

// A message of two pieces; the second is not copied and lives as long as `owner`.
grpc::ByteBuffer MakeMessage(const std::string& header, std::string_view payload,
                             std::shared_ptr<const std::string> owner);
// All of a message in one piece; false if it cannot be read.
bool ReadMessage(const grpc::ByteBuffer& buffer, std::string& bytes);

// Status of the transport itself; replies carry their own (rpc_status.h).
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace lockstep::cluster::internal
