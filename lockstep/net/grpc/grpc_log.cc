#include "lockstep/net/grpc/grpc_log.h"

#include <grpc/support/log.h>

namespace lockstep::net::grpc_link {

void SilenceGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
}

}  // namespace lockstep::net::grpc_link
