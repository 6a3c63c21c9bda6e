// gRPC writes lines of its own to standard error, about connections that fail and the like. What a
// user should know of it comes in the errors of this project. For programs, not for libraries: it
// counts for the whole process. Thread-safe.
#pragma once

namespace lockstep::net::grpc_link {

void SilenceGrpcLog();

}  // namespace lockstep::net::grpc_link
