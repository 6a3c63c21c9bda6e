// The suite of collective calls over the links between hosts.
#include "lockstep/collective/testing/conformance.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/net/ucx/ucx_provider.h"

namespace lockstep::collective::testing {
namespace {

using net::testing::TestCluster;

std::unique_ptr<TestCluster> Ucx(int num_tasks) {
  return net::testing::MakeLocalCluster(
      num_tasks,
      {{net::LinkKind::kUcx, net::UcxFactory({.transports = "tcp,self", .net_devices = "lo"})}});
}

std::unique_ptr<TestCluster> Grpc(int num_tasks) {
  return net::testing::MakeLocalCluster(num_tasks, {{net::LinkKind::kGrpc, net::GrpcFactory({})}});
}

INSTANTIATE_TEST_SUITE_P(Links, CollectiveConformance,
                         ::testing::Values(Kind{"ucx", Ucx, {2, 3}}, Kind{"grpc", Grpc, {2, 3}}),
                         KindName);

}  // namespace
}  // namespace lockstep::collective::testing
