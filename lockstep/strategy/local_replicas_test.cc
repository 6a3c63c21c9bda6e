#include "lockstep/strategy/local_replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/synthetic.h"
#include "lockstep/model/layers.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::strategy {
namespace {

using ::testing::HasSubstr;

// Convolution, batch norm and dropout: everything that could depend on who computes what.
Value Network(const model::ModelContext& ctx, Value x) {
  x = model::Conv(ctx, "conv", x, {.filters = 8});
  x = model::Activate(ctx, model::BatchNormalization(ctx, "norm", x), model::Activation::kRelu);
  x = model::DropoutLayer(ctx, "dropout", x, 0.3);
  return model::Dense(ctx, "logits", x, {.units = 4});
}

class LocalReplicasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data::SyntheticOptions data;
    data.sample_shape = Shape{6, 5, 3};
    data.num_classes = 4;
    data.train_samples = 21;
    data.test_samples = 0;
    dataset_ = data::MakeSynthetic(data).value();
    train::ProgramOptions options;
    options.sample_shape = data.sample_shape;
    options.num_classes = 4;
    options.optimizer.name = "momentum";
    Result<train::Program> program = train::BuildProgram(Network, options);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    program_ = std::move(program).value();
  }

  // The hash of all state after two epochs, the last batch of each shorter than the number of
  // replicas.
  std::string Hash(int devices, int replicas, uint64_t seed = 3) {
    Result<std::unique_ptr<LocalReplicas>> strategy =
        LocalReplicas::Create(program_, {.devices = devices, .replicas = replicas, .seed = seed});
    EXPECT_TRUE(strategy.ok()) << strategy.status().ToString();
    EXPECT_TRUE((*strategy)->Initialize().ok());
    data::Batcher batcher =
        data::Batcher::Create(dataset_.train,
                              {.seed = seed, .global_batch = 9, .replicas = replicas})
            .value();
    int64_t step = 0;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      batcher.StartEpoch(epoch);
      for (int64_t s = 0; s < batcher.steps_per_epoch(); ++s, ++step) {
        const Result<train::StepResult> result = (*strategy)->RunStep({batcher, s, step, 0.05F});
        EXPECT_TRUE(result.ok()) << result.status().ToString();
        if (!result.ok()) {
          return "";
        }
        EXPECT_EQ(result->samples, s == 2 ? 3 : 9);
      }
    }
    const exec::VariableStore& store = *(*strategy)->shared_variables();
    return train::HashState(store, program_.model_variables, program_.slot_variables, step).value();
  }

  data::Dataset dataset_;
  train::Program program_;
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
