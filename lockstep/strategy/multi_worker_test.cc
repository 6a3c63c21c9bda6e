// LocalReplicas over the tasks of a group: the same bits as in one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/strategy/testing/group_of_all.h"
#include "lockstep/strategy/testing/two_epochs.h"

namespace lockstep::strategy {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

struct Workers {
  int workers = 1;
  int devices = 1;
  size_t bucket_bytes = size_t{1} << 20;
  bool shared_memory = true;
  bool overlap = true;
};

Result<std::unique_ptr<collective::Group>> GroupOf(net::Transport& transport, int replicas,
                                                   const Workers& layout) {
  return testing::GroupOfAll(transport,
                             {.replicas = replicas, .shared_memory = layout.shared_memory});
}

class MultiWorkerTest : public ::testing::Test {
 protected:
  std::string HashOfTask(net::Transport& transport, int replicas, const Workers& layout) const {
    const auto group = GroupOf(transport, replicas, layout);
    if (!group.ok()) {
      return group.status().ToString();
    }
    return testing::TwoEpochs(program_, dataset_,
                              {.devices = layout.devices,
                               .replicas = replicas,
                               .seed = 3,
                               .group = group->get(),
                               .bucket_bytes = layout.bucket_bytes,
                               .timeout = seconds(30),
                               .overlap = layout.overlap});
  }

  // What every worker ends with, after checking that all end with the same.
  std::string Hash(int replicas, const Workers& layout) const {
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

  std::string LocalHash(int replicas) const {
    return testing::TwoEpochs(program_, dataset_, {.replicas = replicas, .seed = 3});
  }

  const data::Dataset dataset_ = testing::SmallData();
  const train::Program program_ = testing::SmallProgram();
};

TEST_F(MultiWorkerTest, AnyNumberOfWorkersHasTheBitsOfOneProcess) {
  const std::string expected = LocalHash(8);
  for (const int workers : {1, 2, 3, 5, 8}) {
    EXPECT_EQ(Hash(8, {.workers = workers}), expected) << workers;
  }
}

TEST_F(MultiWorkerTest, WithSeveralDevicesOddReplicasAndWorkersWithoutAny) {
  const std::string seven = LocalHash(7);
  EXPECT_EQ(Hash(7, {.workers = 2, .devices = 2}), seven);
  EXPECT_EQ(Hash(7, {.workers = 3, .devices = 3}), seven);
  EXPECT_EQ(Hash(2, {.workers = 3, .devices = 2}), LocalHash(2));
  EXPECT_EQ(Hash(1, {.workers = 2}), LocalHash(1));
}

TEST_F(MultiWorkerTest, BucketsOverlapAndAlgorithmsChangeNothing) {
  const std::string expected = LocalHash(5);
  for (const size_t bucket : {size_t{4}, size_t{256}, size_t{25} << 20}) {
    for (const bool overlap : {true, false}) {
      EXPECT_EQ(Hash(5, {.workers = 2, .bucket_bytes = bucket, .overlap = overlap}), expected)
          << bucket;
      EXPECT_EQ(Hash(5, {.workers = 3,
                         .devices = 2,
                         .bucket_bytes = bucket,
                         .shared_memory = false,
                         .overlap = overlap}),
                expected)
          << bucket;
    }
  }
}

TEST_F(MultiWorkerTest, OverTheSimulatedNetwork) {
  net::SimOptions options;
  options.num_tasks = 3;
  options.seed = 3;
  options.jitter = std::chrono::microseconds(500);
  options.reorder = true;
  net::SimNetwork network(options);
  std::vector<std::string> hashes(3);
  net::RunTasks(network, [&](net::PeerId task) {
    hashes[static_cast<size_t>(task)] =
        HashOfTask(network.transport(task), 5,
                   {.workers = 3, .bucket_bytes = 256, .shared_memory = false, .overlap = false});
  });
  EXPECT_THAT(hashes, ::testing::Each(LocalHash(5)));
}

TEST_F(MultiWorkerTest, TheGroupMustHaveTheStrategysReplicas) {
  const auto cluster =
      net::testing::MakeLocalCluster(1, {{net::LinkKind::kShm, net::ShmFactory({})}});
  const auto group = GroupOf(cluster->transport(0), 3, {.workers = 1}).value();
  const auto strategy = LocalReplicas::Create(program_, {.replicas = 4, .group = group.get()});
  EXPECT_THAT(strategy.status().message(),
              HasSubstr("a step of 4 parts over the group 'workers' of 3 replicas"));
}

// One worker finds a label that there cannot be: nobody waits for its sums.
TEST_F(MultiWorkerTest, AWorkerThatCannotGoOnEndsTheStepOfAll) {
  const auto cluster =
      net::testing::MakeLocalCluster(2, {{net::LinkKind::kShm, net::ShmFactory({})}});
  std::vector<Status> ended(2);
  cluster->RunTasks([&](net::PeerId task) {
    const data::Dataset data = testing::SmallData();
    if (task == 1) {
      Tensor labels = data.train.labels();
      std::fill(labels.values<int32_t>().begin(), labels.values<int32_t>().end(), 77);
    }
    const auto group = GroupOf(cluster->transport(task), 2, {.workers = 2}).value();
    const auto strategy =
        LocalReplicas::Create(
            program_,
            {.replicas = 2, .group = group.get(), .bucket_bytes = 256, .timeout = seconds(30)})
            .value();
    ASSERT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(data.train, {.global_batch = 9, .replicas = 2}).value();
    ended[static_cast<size_t>(task)] = strategy->RunStep({batcher, 0, 0, 0.05F}).status();
  });
  EXPECT_THAT(ended[1].message(), HasSubstr("77")) << ended[1].ToString();
  EXPECT_THAT(ended[0].message(), HasSubstr("77")) << ended[0].ToString();
  EXPECT_THAT(ended[0].ToString(), HasSubstr("task:1")) << ended[0].ToString();
}

}  // namespace
}  // namespace lockstep::strategy
