// UCX over loopback TCP against the suite of all transports, and a peer that dies.
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/net/ucx/ucx_provider.h"

namespace lockstep::net::testing {
namespace {

std::unique_ptr<TestCluster> Tcp(int num_tasks) {
  return MakeLocalCluster(
      num_tasks, {{LinkKind::kUcx, UcxFactory({.transports = "tcp,self", .net_devices = "lo"})}});
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, ::testing::Values(Kind{"tcp", Tcp, 200}),
                         KindName);

}  // namespace
}  // namespace lockstep::net::testing
