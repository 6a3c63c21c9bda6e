// gRPC runs callbacks on threads of the process, which it ends with the last server and channel and
// starts again with the next: in version 1.51 a race there aborts the process ("prior > 0" in
// grpc_cq_internal_unref). Called before the first of them is made, KeepCallbackThreads keeps the
// threads until the process ends. Thread-safe.
#pragma once

namespace lockstep::net::grpc_link {

void KeepCallbackThreads();

}  // namespace lockstep::net::grpc_link
