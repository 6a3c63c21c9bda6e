#include "lockstep/strategy/local_replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/strategy/testing/two_epochs.h"

namespace lockstep::strategy {
namespace {

using ::testing::HasSubstr;

class LocalReplicasTest : public ::testing::Test {
 protected:
  std::string Hash(int devices, int replicas, uint64_t seed = 3) const {
    return testing::TwoEpochs(program_, dataset_,
                              {.devices = devices, .replicas = replicas, .seed = seed});
  }

  const data::Dataset dataset_ = testing::SmallData();
  const train::Program program_ = testing::SmallProgram();
};

TEST_F(LocalReplicasTest, TheNumberOfDevicesDoesNotChangeABit) {
  const std::string one = Hash(1, 4);
  EXPECT_EQ(Hash(1, 4), one);
  EXPECT_EQ(Hash(2, 4), one);
  EXPECT_EQ(Hash(3, 4), one);
  EXPECT_EQ(Hash(4, 4), one);
}

TEST_F(LocalReplicasTest, OddNumbersOfReplicasAndEmptyReplicas) {
  const std::string one = Hash(1, 5);
  EXPECT_EQ(Hash(2, 5), one);
  EXPECT_EQ(Hash(5, 5), one);
  EXPECT_NE(one, "");
}

TEST_F(LocalReplicasTest, SeedAndReplicasDoChangeTheResult) {
  EXPECT_NE(Hash(1, 2, 3), Hash(1, 2, 4));
  EXPECT_NE(Hash(1, 2), Hash(1, 4));
}

TEST_F(LocalReplicasTest, ADeviceNeedsAReplica) {
  EXPECT_THAT(LocalReplicas::Create(program_, {.devices = 3, .replicas = 2}).status().message(),
              HasSubstr("3 devices for 2 logical replicas"));
}

// Without batch statistics and dropout the number of replicas changes the rounding only.
TEST_F(LocalReplicasTest, ReplicasComputeTheGradientOfTheWholeBatch) {
  const auto network = [](const model::ModelContext& ctx, Value x) {
    return model::Dense(ctx, "logits", model::Conv(ctx, "conv", x, {.filters = 3}), {.units = 4});
  };
  train::ProgramOptions options;
  options.sample_shape = dataset_.sample_shape;
  options.num_classes = 4;
  options.optimizer.name = "sgd";
  const train::Program program = train::BuildProgram(network, options).value();
  std::vector<std::vector<double>> weights;
  for (const int replicas : {1, 3, 8}) {
    auto strategy = LocalReplicas::Create(program, {.replicas = replicas}).value();
    ASSERT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(dataset_.train, {.global_batch = 7, .replicas = replicas}).value();
    for (int64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(strategy->RunStep({batcher, step, step, 0.1F}).ok());
    }
    weights.push_back(strategy->shared_variables()->Read("logits/kernel").value().ToDoubles());
  }
  for (size_t i = 0; i < weights[0].size(); ++i) {
    EXPECT_NEAR(weights[1][i], weights[0][i], 1e-6);
    EXPECT_NEAR(weights[2][i], weights[0][i], 1e-6);
  }
}

}  // namespace
}  // namespace lockstep::strategy
