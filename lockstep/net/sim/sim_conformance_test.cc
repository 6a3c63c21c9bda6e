// SimNetwork against the suite of all transports.
#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/testing/conformance.h"

namespace lockstep::net::testing {
namespace {

class SimCluster : public TestCluster {
 public:
  explicit SimCluster(SimOptions options) : network_(std::move(options)) {}

  Transport& transport(PeerId task) override { return network_.transport(task); }

  void RunTasks(const std::function<void(PeerId)>& run) override { net::RunTasks(network_, run); }

 private:
  SimNetwork network_;
};

std::unique_ptr<TestCluster> Virtual(int num_tasks) {
  SimOptions options;
  options.num_tasks = num_tasks;
  return std::make_unique<SimCluster>(options);
}

std::unique_ptr<TestCluster> Rough(int num_tasks) {
  SimOptions options;
  options.num_tasks = num_tasks;
  options.seed = 5;
  options.jitter = std::chrono::microseconds(200);
  options.reorder = true;
  options.bytes_per_second = 1e9;
  return std::make_unique<SimCluster>(options);
}

std::unique_ptr<TestCluster> RealTime(int num_tasks) {
  SimOptions options;
  options.num_tasks = num_tasks;
  options.virtual_time = false;
  return std::make_unique<SimCluster>(options);
}

INSTANTIATE_TEST_SUITE_P(Sim, TransportConformance,
                         ::testing::Values(Kind{"virtual", Virtual, 40}, Kind{"rough", Rough, 10},
                                           Kind{"realtime", RealTime, 10}),
                         KindName);

}  // namespace
}  // namespace lockstep::net::testing
