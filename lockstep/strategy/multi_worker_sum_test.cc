#include "lockstep/strategy/multi_worker_sum.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/strategy/testing/two_epochs.h"

namespace lockstep::strategy {
namespace {

using std::chrono::seconds;

class MultiWorkerSumTest : public ::testing::Test {
 protected:
  struct Layout {
    int workers = 1;
    int devices = 1;
    size_t bucket_bytes = size_t{1} << 20;
    bool shared_memory = true;
  };

  // What every worker ends with, after checking that all end with the same.
  std::string Hash(int replicas, const Layout& layout) const {
    const auto cluster = net::testing::MakeLocalCluster(
        layout.workers, {{net::LinkKind::kShm, net::ShmFactory({})}});
    std::vector<std::string> hashes(static_cast<size_t>(layout.workers));
    cluster->RunTasks([&](net::PeerId task) {
      hashes[static_cast<size_t>(task)] = HashOfTask(cluster->transport(task), replicas, layout);
    });
    for (const std::string& hash : hashes) {
      EXPECT_EQ(hash, hashes[0]);
    }
    return hashes[0];
  }

  std::string HashOfTask(net::Transport& transport, int replicas, const Layout& layout) const {
    collective::GroupOptions options{
        .name = "workers", .replicas = replicas, .shared_memory = layout.shared_memory};
    for (int task = 0; task < layout.workers; ++task) {
      options.tasks.push_back(task);
    }
    Result<std::unique_ptr<collective::Group>> group =
        collective::Group::Create(transport, options, transport.After(seconds(30)));
    if (!group.ok()) {
      return group.status().ToString();
    }
    const auto sum =
        MultiWorkerSum::Create(std::move(group).value(), program_.train.partials,
                               {.bucket_bytes = layout.bucket_bytes, .timeout = seconds(30)})
            .value();
    return testing::TwoEpochs(program_, dataset_,
                              {.devices = layout.devices,
                               .replicas = replicas,
                               .seed = 3,
                               .cross_replica_sum = sum.get()});
  }

  std::string LocalHash(int replicas) const {
    return testing::TwoEpochs(program_, dataset_, {.replicas = replicas, .seed = 3});
  }

  const data::Dataset dataset_ = testing::SmallData();
  const train::Program program_ = testing::SmallProgram();
};

TEST_F(MultiWorkerSumTest, AnyNumberOfWorkersHasTheBitsOfOneProcess) {
  const std::string expected = LocalHash(8);
  for (const int workers : {1, 2, 3, 5, 8}) {
    EXPECT_EQ(Hash(8, {.workers = workers}), expected) << workers;
  }
}

TEST_F(MultiWorkerSumTest, WithSeveralDevicesOddReplicasAndWorkersWithoutAny) {
  const std::string seven = LocalHash(7);
  EXPECT_EQ(Hash(7, {.workers = 2, .devices = 2}), seven);
  EXPECT_EQ(Hash(7, {.workers = 3, .devices = 3}), seven);
  EXPECT_EQ(Hash(2, {.workers = 3, .devices = 2}), LocalHash(2));
}

TEST_F(MultiWorkerSumTest, BucketsAndAlgorithmsChangeNothing) {
  const std::string expected = LocalHash(5);
  for (const size_t bucket : {size_t{4}, size_t{256}, size_t{25} << 20}) {
    EXPECT_EQ(Hash(5, {.workers = 2, .bucket_bytes = bucket}), expected) << bucket;
    EXPECT_EQ(Hash(5, {.workers = 3, .bucket_bytes = bucket, .shared_memory = false}), expected)
        << bucket;
  }
}

}  // namespace
}  // namespace lockstep::strategy
