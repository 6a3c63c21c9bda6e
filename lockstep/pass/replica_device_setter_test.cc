#include "lockstep/pass/replica_device_setter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/variable.h"

namespace lockstep::pass {
namespace {

using ::testing::HasSubstr;

class ReplicaDeviceSetterTest : public ::testing::Test {
 protected:
  std::string DeviceOfVariable(const Shape& shape = {}) {
    const Value v = op::Variable(b_, "v", op::Const(b_, Tensor::Zeros(DType::kFloat32, shape)));
    return v.valid() ? v.node->device : b_.status().ToString();
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(ReplicaDeviceSetterTest, VariablesGoRoundAndTheRestToTheWorker) {
  const DeviceScope scope(
      b_, ReplicaDeviceSetter({.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
  const Value a = op::Variable(b_, "a", op::Scalar(b_, 1));
  EXPECT_EQ(a.node->device, "/job:ps/task:0");
  EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:1");
  EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:0");
  const Value sum = op::Add(b_, a, a);
  EXPECT_EQ(sum.node->device, "/job:worker/task:3");
  EXPECT_EQ(op::AssignAdd(b_, a, sum).node->device, "/job:ps/task:0") << "storage stays";
}

TEST_F(ReplicaDeviceSetterTest, InnerScopesCountFirst) {
  const DeviceScope outer(b_, "/job:other/task:9/gpu:4");
  const DeviceScope scope(b_, ReplicaDeviceSetter({.ps_tasks = 2}));
  {
    const DeviceScope inner(b_, "cpu:1");
    EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:0/device:CPU:1");
    EXPECT_EQ(op::Scalar(b_, 1).node->device, "/job:worker/task:9/device:CPU:1");
  }
  {
    const DeviceScope inner(b_, "/task:1");
    EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:1/device:GPU:4");
  }
  {
    const DeviceScope inner(b_, "/job:chief");
    EXPECT_EQ(DeviceOfVariable(), "/job:chief/task:9/device:GPU:4");
  }
  // Neither of the last two took a turn.
  EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:1/device:GPU:4");
}

TEST_F(ReplicaDeviceSetterTest, WithoutMergingAnInnerScopeIsLeftAlone) {
  const DeviceScope scope(b_, ReplicaDeviceSetter({.ps_tasks = 2, .merge_devices = false}));
  const DeviceScope inner(b_, "cpu:1");
  EXPECT_EQ(DeviceOfVariable(), "/device:CPU:1");
}

TEST_F(ReplicaDeviceSetterTest, WithoutTasksThereIsNoFunction) {
  EXPECT_EQ(ReplicaDeviceSetter({}), nullptr);
  const DeviceScope scope(b_, ReplicaDeviceSetter({}));
  EXPECT_EQ(DeviceOfVariable(), "");
}

TEST_F(ReplicaDeviceSetterTest, GreedyByBytes) {
  const DeviceScope scope(
      b_, ReplicaDeviceSetter(
              {.ps_tasks = 2, .ps_strategy = GreedyLoadBalancingStrategy(2, ByteSizeLoad)}));
  EXPECT_EQ(DeviceOfVariable({10, 10}), "/job:ps/task:0");
  EXPECT_EQ(DeviceOfVariable({10, 3}), "/job:ps/task:1");
  EXPECT_EQ(DeviceOfVariable({10, 8}), "/job:ps/task:1");
  EXPECT_EQ(DeviceOfVariable({1}), "/job:ps/task:0") << "400 bytes against 440";
  NodeSpec open{.name = "open", .op = "Variable", .attrs = {{"dtype", DType::kFloat32}}};
  EXPECT_THAT(ByteSizeLoad(open).status().message(), HasSubstr("op Variable 'open'"));
}

TEST_F(ReplicaDeviceSetterTest, RandomDependsOnNameAndSeedOnly) {
  const PsStrategy strategy = RandomStrategy(7, 5);
  std::vector<int> counts(7);
  for (int i = 0; i < 700; ++i) {
    const NodeSpec node{.name = "layer/" + std::to_string(i), .op = "Variable"};
    const int task = strategy(node).value();
    ASSERT_EQ(task, RandomStrategy(7, 5)(node).value());
    ++counts[static_cast<size_t>(task)];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 60);
    EXPECT_LT(count, 150);
  }
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const NodeSpec node{.name = "layer/" + std::to_string(i), .op = "Variable"};
    same += RandomStrategy(7, 6)(node).value() == strategy(node).value() ? 1 : 0;
  }
  EXPECT_LT(same, 40);
}

TEST_F(ReplicaDeviceSetterTest, ErrorsAreTheBuilders) {
  const DeviceScope scope(b_, ReplicaDeviceSetter({.ps_tasks = 2, .ps_device = "/job:"}));
  EXPECT_THAT(DeviceOfVariable(), HasSubstr("device name '/job:'"));
}

TEST_F(ReplicaDeviceSetterTest, AStrategyMustChooseATaskThereIs) {
  const DeviceScope scope(
      b_, ReplicaDeviceSetter({.ps_tasks = 2, .ps_strategy = RoundRobinStrategy(3)}));
  EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:0");
  EXPECT_EQ(DeviceOfVariable(), "/job:ps/task:1");
  EXPECT_THAT(DeviceOfVariable(), HasSubstr("chose ps task 2, there are 2"));
}

}  // namespace
}  // namespace lockstep::pass
