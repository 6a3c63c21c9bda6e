// Shared memory against the suite of all transports: reading directly, and through the rings.
#include "lockstep/net/testing/local_cluster.h"

namespace lockstep::net::testing {
namespace {

std::unique_ptr<TestCluster> Direct(int num_tasks) {
  return MakeLocalCluster(num_tasks, {{LinkKind::kShm, ShmFactory({})}});
}

std::unique_ptr<TestCluster> Rings(int num_tasks) {
  return MakeLocalCluster(num_tasks, {{LinkKind::kShm, ShmFactory({.direct_reads = false})}});
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance,
                         ::testing::Values(Kind{"direct", Direct, 200}, Kind{"rings", Rings, 50}),
                         KindName);

}  // namespace
}  // namespace lockstep::net::testing
