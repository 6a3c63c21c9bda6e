// The suite of collective calls over the simulated network and over shared memory.
#include "lockstep/collective/testing/conformance.h"

#include "lockstep/collective/testing/reference.h"
#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/testing/local_cluster.h"

namespace lockstep::collective::testing {
namespace {

using net::testing::TestCluster;

class SimCluster : public TestCluster {
 public:
  explicit SimCluster(net::SimOptions options) : network_(std::move(options)) {}

  net::Transport& transport(net::PeerId task) override { return network_.transport(task); }

  void RunTasks(const std::function<void(net::PeerId)>& run) override {
    net::RunTasks(network_, run);
  }

 private:
  net::SimNetwork network_;
};

std::unique_ptr<TestCluster> Virtual(int num_tasks) {
  net::SimOptions options;
  options.num_tasks = num_tasks;
  return std::make_unique<SimCluster>(options);
}

// Messages of different keys overtake each other.
std::unique_ptr<TestCluster> Rough(int num_tasks) {
  net::SimOptions options;
  options.num_tasks = num_tasks;
  options.seed = 3;
  options.jitter = std::chrono::microseconds(500);
  options.reorder = true;
  options.bytes_per_second = 1e9;
  return std::make_unique<SimCluster>(options);
}

std::unique_ptr<TestCluster> RealTime(int num_tasks) {
  net::SimOptions options;
  options.num_tasks = num_tasks;
  options.virtual_time = false;
  return std::make_unique<SimCluster>(options);
}

std::unique_ptr<TestCluster> Shm(int num_tasks) {
  return net::testing::MakeLocalCluster(num_tasks, {{net::LinkKind::kShm, net::ShmFactory({})}});
}

std::vector<int> VirtualMembers() {
  return kSanitized ? std::vector{1, 2, 3, 4, 5} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9};
}

INSTANTIATE_TEST_SUITE_P(Links, CollectiveConformance,
                         ::testing::Values(Kind{"virtual", Virtual, VirtualMembers(), false, false},
                                           Kind{"memory", Virtual, VirtualMembers(), false},
                                           Kind{"hosts", Virtual, {4, 5}, false, true, 2},
                                           Kind{"rough", Rough, {2, 5}, false, false},
                                           Kind{"realtime", RealTime, {2, 3}},
                                           Kind{"shm", Shm, {2, 3}},
                                           Kind{"shm_hosts", Shm, {5}, true, true, 2}),
                         KindName);

}  // namespace
}  // namespace lockstep::collective::testing
