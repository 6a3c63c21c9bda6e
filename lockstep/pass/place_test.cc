#include "lockstep/pass/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/apply.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/variable.h"

namespace lockstep::pass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kWorker0[] = "/job:worker/replica:0/task:0/device:CPU:0";
constexpr char kWorker1[] = "/job:worker/replica:0/task:1/device:CPU:0";
constexpr char kPs0[] = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr char kPs1[] = "/job:ps/replica:0/task:1/device:CPU:0";

std::vector<DeviceAttributes> Cluster() {
  return {{.name = kPs0}, {.name = kPs1}, {.name = kWorker0}, {.name = kWorker1}};
}

class PlaceTest : public ::testing::Test {
 protected:
  Value Scalar(double value) { return op::Scalar(b_, value); }

  Value NewVariable(std::string_view name) { return op::Variable(b_, name, Scalar(1)); }

  Result<Placement> TryPlace(bool soft = false, const Placement* earlier = nullptr) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    return Place(graph_, devices_, {.soft = soft}, earlier);
  }

  std::string DeviceOf(const Value& value, bool soft = false) {
    const Result<Placement> placement = TryPlace(soft);
    EXPECT_TRUE(placement.ok()) << placement.status().ToString();
    return placement.ok() ? placement->devices[static_cast<size_t>(value.node->id)] : "";
  }

  DeviceSet devices_ = DeviceSet::Create(Cluster(), kWorker0, {}).value();
  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(PlaceTest, TheDefaultDeviceTakesWhatAsksForNothing) {
  EXPECT_EQ(DeviceOf(op::Add(b_, Scalar(1), Scalar(2))), kWorker0);
}

TEST_F(PlaceTest, FullAndPartialNamesAreGranted) {
  Value full;
  Value partial;
  Value task;
  {
    const DeviceScope scope(b_, kPs1);
    full = op::Add(b_, Scalar(1), Scalar(2));
  }
  {
    const DeviceScope scope(b_, "/job:ps");
    partial = op::Add(b_, Scalar(1), Scalar(2));
  }
  {
    const DeviceScope scope(b_, "/task:1");
    task = op::Add(b_, Scalar(1), Scalar(2));
  }
  EXPECT_EQ(DeviceOf(full), kPs1);
  EXPECT_EQ(DeviceOf(partial), kPs0);
  EXPECT_EQ(DeviceOf(task), kPs1) << "ps comes before worker by name";
}

TEST_F(PlaceTest, WhatWritesAVariableIsWhereItIs) {
  Value v;
  Value slot;
  {
    const DeviceScope scope(b_, "/job:ps/task:1");
    v = NewVariable("v");
  }
  {
    const ColocationScope scope(b_, v);
    slot = NewVariable("slot");
  }
  const DeviceScope scope(b_, "/job:worker/task:1");
  const Value update = op::ApplyMomentum(b_, v, slot, Scalar(0.1), Scalar(1));
  const Value after = op::AssignAdd(b_, update, Scalar(1));
  EXPECT_EQ(DeviceOf(v), kPs1);
  EXPECT_EQ(DeviceOf(slot), kPs1);
  EXPECT_EQ(DeviceOf(update), kPs1);
  EXPECT_EQ(DeviceOf(after), kPs1);
  EXPECT_EQ(VariableOf(after), v.node);
  EXPECT_EQ(VariableOf(Scalar(1)), nullptr);
}

TEST_F(PlaceTest, ColocationHoldsBeforeThereIsADevice) {
  const Value v = NewVariable("v");
  Value beside;
  {
    const DeviceScope outer(b_, "/job:worker/task:1");
    const ColocationScope scope(b_, v);
    beside = op::Add(b_, Scalar(1), Scalar(2));
  }
  // The wish of a member counts for the group.
  beside.node->device = "/job:ps/task:1";
  EXPECT_EQ(beside.node->colocate_with, "v");
  EXPECT_EQ(DeviceOf(v), kPs1);
  beside.node->colocate_with = "nothing";
  EXPECT_THAT(TryPlace().status().message(), HasSubstr("'nothing', which is not in the graph"));
}

TEST_F(PlaceTest, ConstantsGoToTheirConsumersAndReadsToTheirVariables) {
  Value v;
  {
    const DeviceScope scope(b_, "/job:ps/task:1");
    v = op::Variable(b_, "v", op::Const(b_, Tensor::From<float>(Shape{3, 1}, {1, 2, 3})));
  }
  const Value read = op::Identity(b_, v);
  const Value rows = op::Gather(b_, v, op::Const(b_, Tensor::From<int32_t>(Shape{1}, {2})));
  const Value one = Scalar(1);
  Value far;
  {
    const DeviceScope scope(b_, "/job:worker/task:1");
    far = op::Add(b_, one, v);
  }
  EXPECT_EQ(DeviceOf(read), kPs1);
  EXPECT_EQ(DeviceOf(rows), kPs1);
  EXPECT_EQ(DeviceOf(far), kWorker1);
  EXPECT_EQ(DeviceOf(one), kWorker1);
  op::Add(b_, one, one);
  EXPECT_EQ(DeviceOf(one), kWorker0) << "its consumers do not agree";
}

TEST_F(PlaceTest, ErrorsNameTheOpItsLineTheWishAndWhatThereIs) {
  const DeviceScope scope(b_, "/job:ps/task:7");
  const int line = __LINE__ + 1;
  op::Variable(b_, "v", Scalar(1));
  const Status status = TryPlace().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("op Variable 'v'"), HasSubstr("_test.cc:" + std::to_string(line)),
                    HasSubstr("/job:ps/task:7"), HasSubstr(kPs1)));
}

TEST_F(PlaceTest, ContradictionsNameBoth) {
  const Value v = NewVariable("v");
  const Value add = op::AssignAdd(b_, v, Scalar(1));
  v.node->device = "/job:ps/task:0";
  add.node->device = "/job:worker";
  EXPECT_THAT(TryPlace().status().message(),
              AllOf(HasSubstr("op AssignAdd 'AssignAdd'"), HasSubstr("op Variable 'v'"),
                    HasSubstr("/job:worker"), HasSubstr("/job:ps/task:0")));
  const Result<Placement> soft = TryPlace(true);
  ASSERT_TRUE(soft.ok()) << soft.status().ToString();
  EXPECT_EQ(soft->devices[static_cast<size_t>(add.node->id)], kPs0);
  EXPECT_THAT(soft->notes, ElementsAre(HasSubstr("op AssignAdd 'AssignAdd'")));
}

TEST_F(PlaceTest, SoftPlacementKeepsTheTask) {
  Value gpu;
  {
    const DeviceScope scope(b_, "/job:ps/task:1/gpu:3");
    gpu = op::Add(b_, Scalar(1), Scalar(2));
  }
  EXPECT_THAT(TryPlace().status().message(), HasSubstr("/job:ps/task:1/device:GPU:3"));
  EXPECT_EQ(DeviceOf(gpu, true), kPs1);
  const Result<Placement> soft = TryPlace(true);
  EXPECT_THAT(soft->notes.back(), AllOf(HasSubstr("GPU:3"), HasSubstr(kPs1)));
  gpu.node->device = "/job:ps/task:5/device:GPU:3";
  EXPECT_FALSE(TryPlace(true).ok()) << "another task is another machine";
}

TEST_F(PlaceTest, AKindWithoutKernelIsNoCandidate) {
  constexpr char kGpu[] = "/job:worker/replica:0/task:0/device:GPU:0";
  std::vector<DeviceAttributes> devices = Cluster();
  devices.push_back({.name = kGpu, .kind = "GPU"});
  devices_ = DeviceSet::Create(devices, kGpu, {}).value();
  const Value sum = op::Add(b_, Scalar(1), Scalar(2));
  EXPECT_EQ(DeviceOf(sum), kWorker0);
  sum.node->device = "/device:GPU:0";
  EXPECT_THAT(TryPlace().status().message(), HasSubstr("no kernel for"));
  EXPECT_EQ(DeviceOf(sum, true), kWorker0);
}

TEST_F(PlaceTest, WhatWasPlacedStaysWhenTheGraphGrows) {
  const Value one = Scalar(1);
  Value far;
  {
    const DeviceScope scope(b_, "/job:worker/task:1");
    far = op::Add(b_, one, one);
  }
  const Placement first = TryPlace().value();
  EXPECT_EQ(first.devices[static_cast<size_t>(one.node->id)], kWorker1);
  const Value near = op::Add(b_, one, far);
  const Placement second = TryPlace(false, &first).value();
  EXPECT_EQ(second.devices[static_cast<size_t>(one.node->id)], kWorker1);
  EXPECT_EQ(second.devices[static_cast<size_t>(near.node->id)], kWorker0);
  const Value v = NewVariable("v");
  const Placement third = TryPlace(false, &second).value();
  const Value add = op::AssignAdd(b_, v, Scalar(1));
  add.node->device = "/job:ps";
  EXPECT_THAT(TryPlace(false, &third).status().message(),
              AllOf(HasSubstr("op AssignAdd"), HasSubstr(kWorker0)));
}

TEST_F(PlaceTest, FiltersLeaveDevicesOut) {
  const std::vector<std::string> filters = {"/job:ps/task:1"};
  const DeviceSet filtered = DeviceSet::Create(Cluster(), kWorker0, filters).value();
  EXPECT_EQ(filtered.ToString(), std::string(kWorker0) + ", " + kPs1);
  const DeviceScope scope(b_, "/job:ps/task:0");
  NewVariable("v");
  EXPECT_FALSE(Place(graph_, filtered, {}).ok());
}

TEST_F(PlaceTest, DeviceSetsAreChecked) {
  const auto error = [](std::vector<DeviceAttributes> devices, std::string_view preferred,
                        std::vector<std::string> filters = {}) {
    return DeviceSet::Create(std::move(devices), preferred, filters).status().message();
  };
  EXPECT_THAT(error({{.name = "/job:ps"}}, kPs0), HasSubstr("no full name"));
  EXPECT_THAT(error({{.name = kPs0}, {.name = kPs0}}, kPs0), HasSubstr("given twice"));
  EXPECT_THAT(error(Cluster(), "/job:chief"), HasSubstr("default device '/job:chief'"));
  EXPECT_THAT(error(Cluster(), kPs0, {"/job:"}), HasSubstr("device name '/job:'"));
  EXPECT_THAT(error({}, kPs0), HasSubstr("(none)"));
}

TEST_F(PlaceTest, TheListingNamesEveryNode) {
  op::Add(b_, Scalar(1), Scalar(2));
  EXPECT_EQ(DescribePlacement(graph_, TryPlace().value()),
            "Const (Const): " + std::string(kWorker0) + "\nConst_1 (Const): " + kWorker0 +
                "\nAdd (Add): " + kWorker0 + "\n");
  EXPECT_THAT(TryPlace()->notes, IsEmpty());
}

}  // namespace
}  // namespace lockstep::pass
