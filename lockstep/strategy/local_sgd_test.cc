#include "lockstep/strategy/local_sgd.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/net/sim/sim_network.h"
#include "lockstep/strategy/group_workers.h"
#include "lockstep/strategy/testing/group_of_all.h"
#include "lockstep/strategy/testing/two_epochs.h"
#include "lockstep/train/trainer.h"

namespace lockstep::strategy {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

using State = std::map<std::string, std::vector<float>>;

State Read(const exec::VariableStore& store) {
  State state;
  for (const exec::Variable* variable : store.All()) {
    const Tensor value = store.Read(variable->name).value();
    const std::span<const float> values = value.values<float>();
    state[variable->name] = {values.begin(), values.end()};
  }
  return state;
}

// Samples [begin + step * batch, ... + count) for each of the steps, one after another.
data::Split Part(const data::Split& all, int64_t begin, int64_t count, int64_t batch,
                 int64_t steps) {
  const int64_t elements = all.sample_elements();
  std::vector<float> features(static_cast<size_t>(count * steps * elements));
  std::vector<int32_t> labels(static_cast<size_t>(count * steps));
  std::vector<uint32_t> indices;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<uint32_t>(step * batch + begin + i));
    }
  }
  all.Gather(indices, features.data(), labels.data());
  const auto n = static_cast<int64_t>(indices.size());
  return data::Split::Create("part", Tensor::From<float>(Shape{n, 6, 5, 3}, features).value(),
                             Tensor::From<int32_t>(Shape{n}, labels).value(), 4)
      .value();
}

Value Plain(const model::ModelContext& ctx, Value x) {
  return model::Dense(ctx, "logits", x, {.units = 4});
}

class LocalSgdTest : public ::testing::Test {
 protected:
  LocalSgdTest() {
    train::ProgramOptions options;
    options.sample_shape = Shape{6, 5, 3};
    options.num_classes = 4;
    options.optimizer.name = "momentum";
    // Without anything random, so that a replica can be computed by itself.
    plain_ = train::BuildProgram(Plain, options).value();
  }

  // The variables after `steps` steps of 8 samples in stored order.
  State Steps(const train::Program& program, LocalSgdOptions options, int64_t steps) const {
    options.seed = 3;
    const auto strategy = LocalSgd::Create(program, options).value();
    EXPECT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(dataset_.train,
                              {.global_batch = 8, .replicas = options.replicas, .shuffle = false})
            .value();
    for (int64_t step = 0; step < steps; ++step) {
      const auto result = strategy->RunStep({batcher, step, step, 0.05F});
      EXPECT_TRUE(result.ok()) << result.status().ToString();
    }
    EXPECT_TRUE(strategy->Merge().ok());
    return Read(*strategy->shared_variables());
  }

  // One replica by itself: its samples are [begin, begin + count) of each 8.
  State Alone(int64_t begin, int64_t count, int64_t steps) const {
    data::Dataset part;
    part.train = Part(dataset_.train, begin, count, 8, steps);
    const auto strategy = LocalReplicas::Create(plain_, {.seed = 3}).value();
    EXPECT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(part.train, {.global_batch = count, .shuffle = false}).value();
    for (int64_t step = 0; step < steps; ++step) {
      EXPECT_TRUE(strategy->RunStep({batcher, step, step, 0.05F}).ok());
    }
    return Read(*strategy->shared_variables());
  }

  State Initial() const {
    const auto strategy = LocalReplicas::Create(plain_, {.seed = 3}).value();
    EXPECT_TRUE(strategy->Initialize().ok());
    return Read(*strategy->shared_variables());
  }

  const data::Dataset dataset_ = testing::SmallData();  // 21 samples
  train::Program plain_;
};

TEST_F(LocalSgdTest, MergesTheAverageOfModelsThatWereTrainedApart) {
  const State merged = Steps(plain_, {.replicas = 2, .merge_steps = 2}, 2);
  const State first = Alone(0, 4, 2);
  const State second = Alone(4, 4, 2);
  for (const auto& [name, values] : merged) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], 0.5F * first.at(name)[i] + 0.5F * second.at(name)[i]) << name;
    }
  }
}

// The third step has 5 samples: 2 and 3.
TEST_F(LocalSgdTest, WeighsReplicasByTheirSamples) {
  const State merged = Steps(plain_, {.replicas = 8, .merge_steps = 100}, 3);
  State expected;
  for (int64_t r = 0; r < 8; ++r) {
    // Replica r has sample r of 8, and in the last step one of 5 where there is one for it.
    const bool has_third = 5 * r / 8 != 5 * (r + 1) / 8;
    data::Dataset part;
    std::vector<uint32_t> indices = {static_cast<uint32_t>(r), static_cast<uint32_t>(8 + r)};
    if (has_third) {
      indices.push_back(static_cast<uint32_t>(16 + 5 * r / 8));
    }
    std::vector<float> features(indices.size() * 90);
    std::vector<int32_t> labels(indices.size());
    dataset_.train.Gather(indices, features.data(), labels.data());
    const auto n = static_cast<int64_t>(indices.size());
    part.train =
        data::Split::Create("part", Tensor::From<float>(Shape{n, 6, 5, 3}, features).value(),
                            Tensor::From<int32_t>(Shape{n}, labels).value(), 4)
            .value();
    const auto strategy = LocalReplicas::Create(plain_, {.seed = 3}).value();
    ASSERT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(part.train, {.global_batch = 1, .shuffle = false}).value();
    for (int64_t step = 0; step < n; ++step) {
      ASSERT_TRUE(strategy->RunStep({batcher, step, step, 0.05F}).ok());
    }
    for (const auto& [name, values] : Read(*strategy->shared_variables())) {
      expected[name].resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        expected[name][i] += values[i] * static_cast<float>(n) / 21;
      }
    }
  }
  for (const auto& [name, values] : merged) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected.at(name)[i], 1e-6) << name;
    }
  }
}

TEST_F(LocalSgdTest, TakesTheOuterStepOfDiLoCo) {
  const State initial = Initial();
  const State average = Steps(plain_, {.replicas = 2, .merge_steps = 1}, 1);
  for (const bool nesterov : {false, true}) {
    const State outer = Steps(plain_,
                              {.replicas = 2,
                               .merge_steps = 1,
                               .outer_learning_rate = 0.7,
                               .outer_momentum = 0.9,
                               .outer_nesterov = nesterov},
                              1);
    for (const std::string& name : plain_.model_variables) {
      for (size_t i = 0; i < initial.at(name).size(); ++i) {
        const double d = double{initial.at(name)[i]} - average.at(name)[i];
        EXPECT_NEAR(outer.at(name)[i], initial.at(name)[i] - 0.7 * (nesterov ? 1.9 * d : d), 1e-6)
            << name;
      }
    }
  }
}

// Convolution, batch norm, dropout; merges in the middle of epochs and at their ends.
TEST_F(LocalSgdTest, AnyNumberOfWorkersAndDevicesHasTheSameBits) {
  const train::Program program = testing::SmallProgram();
  train::TrainerOptions trainer_options;
  trainer_options.global_batch = 9;
  trainer_options.parts = 5;
  trainer_options.epochs = 3;
  trainer_options.optimizer.name = "momentum";
  trainer_options.optimizer.learning_rate = 0.05;
  data::Dataset dataset = testing::SmallData();
  dataset.test = dataset.train;

  struct Trained {
    std::string hash;
    train::FitResult fit;
  };

  const auto train = [&](int devices, collective::Group* group, train::Workers* workers) {
    const auto strategy = LocalSgd::Create(program, {.devices = devices,
                                                     .replicas = 5,
                                                     .seed = 3,
                                                     .merge_steps = 2,
                                                     .outer_learning_rate = 0.9,
                                                     .outer_momentum = 0.5,
                                                     .group = group,
                                                     .workers = workers,
                                                     .bucket_bytes = 256,
                                                     .overlap = false})
                              .value();
    train::TrainerOptions options = trainer_options;
    options.workers = workers;
    const auto progress = observe::MakeQuietProgress();
    train::Trainer trainer(program, *strategy, dataset, options, *progress);
    Trained ran;
    Result<train::FitResult> fit = trainer.Fit();
    EXPECT_TRUE(fit.ok()) << fit.status().ToString();
    ran.fit = fit.ok() ? *fit : train::FitResult();
    ran.hash = train::HashState(*strategy->shared_variables(), program.model_variables,
                                program.slot_variables, 9)
                   .value();
    // Every two steps, and at the end of each epoch of three.
    EXPECT_EQ(strategy->sync_rounds(), 6);
    return ran;
  };

  const Trained alone = train(1, nullptr, nullptr);
  EXPECT_EQ(alone.fit.samples, 63);
  EXPECT_EQ(train(3, nullptr, nullptr).hash, alone.hash);
  for (const int count : {2, 3, 7}) {
    net::SimOptions options;
    options.num_tasks = count;
    net::SimNetwork network(options);
    net::RunTasks(network, [&](net::PeerId task) {
      const auto group =
          testing::GroupOfAll(network.transport(task), {.replicas = 5, .shared_memory = false})
              .value();
      GroupWorkers workers(*group, seconds(30));
      const Trained ran = train(count == 2 ? 2 : 1, group.get(), &workers);
      EXPECT_EQ(ran.hash, alone.hash) << count;
      EXPECT_EQ(ran.fit.samples, 63);
      EXPECT_EQ(ran.fit.accuracy, alone.fit.accuracy);
      EXPECT_EQ(ran.fit.final_loss, alone.fit.final_loss);
      EXPECT_EQ(ran.fit.test->loss, alone.fit.test->loss);
    });
  }
}

TEST_F(LocalSgdTest, BetweenMergesNothingIsSent) {
  net::SimOptions options;
  options.num_tasks = 2;
  net::SimNetwork network(options);
  net::RunTasks(network, [&](net::PeerId task) {
    const auto group =
        testing::GroupOfAll(network.transport(task), {.shared_memory = false}).value();
    GroupWorkers workers(*group, seconds(30));
    const auto strategy = LocalSgd::Create(plain_, {.replicas = 2,
                                                    .merge_steps = 3,
                                                    .group = group.get(),
                                                    .workers = &workers,
                                                    .overlap = false})
                              .value();
    ASSERT_TRUE(strategy->Initialize().ok());
    const data::Batcher batcher =
        data::Batcher::Create(dataset_.train, {.global_batch = 7, .replicas = 2}).value();
    const int64_t before = network.counts(task, 1 - task).messages;
    for (int64_t step = 0; step < 2; ++step) {
      const train::StepResult result = strategy->RunStep({batcher, step, step, 0.05F}).value();
      EXPECT_FALSE(result.together);
      EXPECT_EQ(result.samples, 0);
    }
    EXPECT_EQ(network.counts(task, 1 - task).messages, before);
    const train::StepResult merged = strategy->RunStep({batcher, 2, 2, 0.05F}).value();
    EXPECT_TRUE(merged.together);
    EXPECT_EQ(merged.samples, 21);
  });
}

TEST_F(LocalSgdTest, RefusesOptionsThatCannotBe) {
  EXPECT_THAT(LocalSgd::Create(plain_, {.merge_steps = 0}).status().message(),
              HasSubstr("merged every 0 steps"));
  EXPECT_THAT(LocalSgd::Create(plain_, {.outer_momentum = 1}).status().message(),
              HasSubstr("momentum 1"));
  EXPECT_THAT(LocalSgd::Create(plain_, {.outer_learning_rate = 0}).status().message(),
              HasSubstr("outer learning rate 0"));
}

}  // namespace
}  // namespace lockstep::strategy
