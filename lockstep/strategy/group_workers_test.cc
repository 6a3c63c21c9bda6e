// What the trainer does with several workers, over groups of the simulated network.
#include "lockstep/strategy/group_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/net/sim/sim_network.h"
#include "lockstep/strategy/testing/group_of_all.h"
#include "lockstep/strategy/testing/two_epochs.h"
#include "lockstep/train/replica_check.h"
#include "lockstep/train/trainer.h"

namespace lockstep::strategy {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls `work` in every task with a group of all.
void OnWorkers(int count, int replicas,
               const std::function<void(int, collective::Group&, GroupWorkers&)>& work) {
  net::SimOptions options;
  options.num_tasks = count;
  net::SimNetwork network(options);
  net::RunTasks(network, [&](net::PeerId task) {
    const auto group =
        testing::GroupOfAll(network.transport(task), {.replicas = replicas, .shared_memory = false})
            .value();
    GroupWorkers workers(*group, seconds(30));
    work(task, *group, workers);
  });
}

TEST(GroupWorkersTest, ShareWhatEachHas) {
  OnWorkers(3, 3, [](int task, collective::Group&, GroupWorkers& workers) {
    EXPECT_EQ(workers.self(), task);
    EXPECT_EQ(workers.count(), 3);
    EXPECT_FALSE(workers.Any(false).value());
    EXPECT_TRUE(workers.Any(task == 2).value());
    // Parts of 2, 0 and 1.
    std::vector<int64_t> values(3, 0);
    if (task == 0) {
      values[0] = 10;
      values[1] = 11;
    } else if (task == 2) {
      values[2] = 12;
    }
    ASSERT_TRUE(workers.AllGather("values", values, std::vector<int64_t>{2, 0, 1}).ok());
    EXPECT_THAT(values, ElementsAre(10, 11, 12));
    const Tensor tensor = Tensor::From<float>(Shape{2}, task == 0 ? std::vector<float>{1, 2}
                                                                  : std::vector<float>{0, 0})
                              .value();
    ASSERT_TRUE(workers.Broadcast("tensor", tensor).ok());
    EXPECT_THAT(tensor.values<float>(), ElementsAre(1, 2));
  });
}

TEST(GroupWorkersTest, AWorkerWithOtherVariablesIsNamed) {
  OnWorkers(3, 3, [](int task, collective::Group&, GroupWorkers& workers) {
    exec::VariableStore store;
    for (const char* name : {"a", "b", "c"}) {
      ASSERT_TRUE(store.GetOrCreate(name, DType::kFloat32, Shape{1}).ok());
      const float value = task == 1 && std::string_view(name) != "a" ? 1.0000001F : 1;
      ASSERT_TRUE(
          store.Write(name, Tensor::From<float>(Shape{1}, std::vector{value}).value()).ok());
    }
    const std::vector<std::string> names = {"a", "b", "c"};
    const Status status = train::CheckReplicas(store, names, 7, workers);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("after step 7"), HasSubstr("task:1 in 'b'")));
    EXPECT_TRUE(train::CheckReplicas(store, {names.data(), 1}, 8, workers).ok());
  });
}

struct Ran {
  train::FitResult fit;
  std::string hash;
};

class TrainerOnWorkersTest : public ::testing::Test {
 protected:
  TrainerOnWorkersTest() {
    data::SyntheticOptions data;
    data.sample_shape = Shape{6, 5, 3};
    data.num_classes = 4;
    data.train_samples = 21;
    data.test_samples = 23;
    dataset_ = data::MakeSynthetic(data).value();
    options_.global_batch = 9;
    options_.parts = 5;
    options_.epochs = 2;
    options_.eval_batch = 4;
    options_.optimizer.name = "momentum";
    options_.optimizer.learning_rate = 0.05;
  }

  Ran Train(train::TrainerOptions options, collective::Group* group, bool initialize = false) {
    const auto strategy =
        LocalReplicas::Create(program_, {.replicas = 5, .group = group, .overlap = false}).value();
    if (initialize) {
      EXPECT_TRUE(strategy->Initialize().ok());
    }
    const auto progress = observe::MakeQuietProgress();
    train::Trainer trainer(program_, *strategy, dataset_, std::move(options), *progress);
    Result<train::FitResult> fit = trainer.Fit();
    EXPECT_TRUE(fit.ok()) << fit.status().ToString();
    if (!fit.ok()) {
      return {};
    }
    return {*fit, train::HashState(*strategy->shared_variables(), program_.model_variables,
                                   program_.slot_variables, fit->end.step)
                      .value()};
  }

  data::Dataset dataset_;
  const train::Program program_ = testing::SmallProgram();
  train::TrainerOptions options_;
};

// Also the metrics, to the last bit: nobody is counted twice.
TEST_F(TrainerOnWorkersTest, EndsAsOneProcessDoes) {
  const Ran alone = Train(options_, nullptr);
  for (const int count : {1, 2, 3, 7}) {
    OnWorkers(count, 5, [&](int, collective::Group& group, GroupWorkers& workers) {
      train::TrainerOptions options = options_;
      options.workers = &workers;
      options.check_replicas = 2;
      const Ran ran = Train(options, &group);
      EXPECT_EQ(ran.hash, alone.hash) << count;
      EXPECT_EQ(ran.fit.final_loss, alone.fit.final_loss);
      EXPECT_EQ(ran.fit.accuracy, alone.fit.accuracy);
      EXPECT_EQ(ran.fit.samples, alone.fit.samples);
      ASSERT_TRUE(ran.fit.test.has_value());
      EXPECT_EQ(ran.fit.test->samples, 23);
      EXPECT_EQ(ran.fit.test->loss, alone.fit.test->loss);
      EXPECT_EQ(ran.fit.test->accuracy, alone.fit.test->accuracy);
      EXPECT_EQ(ran.fit.test->top5_accuracy, alone.fit.test->top5_accuracy);
    });
  }
}

TEST_F(TrainerOnWorkersTest, OneThatIsToldToStopStopsAllAfterTheSameStep) {
  OnWorkers(3, 5, [&](int task, collective::Group& group, GroupWorkers& workers) {
    train::TrainerOptions options = options_;
    options.workers = &workers;
    options.should_stop = [task](int64_t steps) { return task == 2 && steps == 4; };
    const Ran ran = Train(options, &group);
    EXPECT_TRUE(ran.fit.stopped_early);
    EXPECT_EQ(ran.fit.end.step, 4);
    EXPECT_FALSE(ran.fit.test.has_value());
  });
}

// The others have neither its position nor its variables.
TEST_F(TrainerOnWorkersTest, GoOnWhereTheChiefIs) {
  train::TrainerOptions options = options_;
  options.start = train::TrainPosition{4, 1, 1};
  const Ran alone = Train(options, nullptr, /*initialize=*/true);
  EXPECT_EQ(alone.fit.steps, 2);
  OnWorkers(2, 5, [&](int task, collective::Group& group, GroupWorkers& workers) {
    train::TrainerOptions mine = options_;
    mine.workers = &workers;
    if (task == 0) {
      mine.start = options.start;
    }
    const Ran ran = Train(mine, &group, /*initialize=*/task == 0);
    EXPECT_EQ(ran.hash, alone.hash);
    EXPECT_EQ(ran.fit.steps, 2);
  });
}

}  // namespace
}  // namespace lockstep::strategy
