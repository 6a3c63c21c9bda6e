// gRPC links without TLS, whose messages are sealed, against the suite of all
// transports. With TLS: cluster/security/link_tls_test.cc, where certificates are made.
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/local_cluster.h"

namespace lockstep::net::testing {
namespace {

std::unique_ptr<TestCluster> Sealed(int num_tasks) {
  return MakeLocalCluster(num_tasks, {{LinkKind::kGrpc, GrpcFactory({})}});
}

std::unique_ptr<TestCluster> Ipv6(int num_tasks) {
  return MakeLocalCluster(num_tasks, {{LinkKind::kGrpc, GrpcFactory({.host = "::1"})}});
}

INSTANTIATE_TEST_SUITE_P(Grpc, TransportConformance,
                         ::testing::Values(Kind{"sealed", Sealed, 200}, Kind{"ipv6", Ipv6, 2}),
                         KindName);

}  // namespace
}  // namespace lockstep::net::testing
