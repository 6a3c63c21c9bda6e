// Signatures that run on several devices of a session, against the same on one device.
#include "lockstep/exec/placed_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "lockstep/exec/session.h"
#include "lockstep/exec/testing/random_graph.h"
#include "lockstep/exec/testing/tensors.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reshape.h"

namespace lockstep::exec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class PlacedStepTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> NewSession(int devices = 3) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    Result<std::unique_ptr<Session>> session = Session::Create(graph_, {.devices = devices});
    EXPECT_TRUE(session.ok()) << session.status().ToString();
    return std::move(session).value();
  }

  Value Vector(std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return op::Const(b_, Tensor::From<float>(Shape{count}, values));
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(PlacedStepTest, ValuesCrossDevicesAndBack) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1}, "x");
  const Value y = op::Neg(b_, x);
  Value far;
  {
    const DeviceScope scope(b_, "cpu:1");
    far = op::Add(b_, y, x);
  }
  const Value back = op::Sub(b_, far, y);
  const auto session = NewSession();
  Callable* callable = session->Prepare({{x}, {back, far, y}, {}}).value();
  std::vector<Tensor> fetches(3);
  // Open dimensions, and more than one step of each size.
  for (const std::vector<float>& values :
       std::vector<std::vector<float>>{{1, 2}, {3, 4}, {5, 6, 7}, {}, {8, 9}}) {
    const Tensor feed =
        Tensor::From<float>(Shape{static_cast<int64_t>(values.size())}, values).value();
    const std::vector<Tensor> feeds = {feed};
    ASSERT_TRUE(callable->Run(feeds, fetches, {}).ok());
    EXPECT_TRUE(SameBits(fetches[0], feed));
  }
  EXPECT_THAT(Floats(fetches[1]), ElementsAre(0, 0));
  EXPECT_THAT(Floats(fetches[2]), ElementsAre(-8, -9));
  EXPECT_THAT(callable->PlanFor(std::vector<Tensor>{fetches[0]}).status().message(),
              HasSubstr("runs on 2 devices"));
}

TEST_F(PlacedStepTest, ASignatureOnAnotherDeviceOnlyRunsThere) {
  const DeviceScope scope(b_, "/job:ps/task:3/cpu:2");
  const Value v = op::Variable(b_, "v", Vector({1, 2}));
  const Value twice = op::Add(b_, v, v);
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  EXPECT_THAT(Floats(session->Run({}, {twice}).value()[0]), ElementsAre(2, 4));
}

// A product of this size would like its weights in a layout of its own; what is sent is plain.
TEST_F(PlacedStepTest, WeightsThatAreUsedHereAndElsewhere) {
  Tensor weights = Tensor::Allocate(DType::kFloat32, {784, 10}).value();
  for (size_t i = 0; i < 7840; ++i) {
    weights.values<float>()[i] = static_cast<float>(i % 97) / 97.0F;
  }
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 784}, "x");
  const Value w = op::Variable(b_, "w", op::Const(b_, weights));
  Value there;
  {
    const DeviceScope scope(b_, "cpu:1");
    there = op::MatMul(b_, x, w);
  }
  const Value here = op::MatMul(b_, x, w);
  const Value twice = op::AssignAdd(b_, w, w);
  const auto session = NewSession(2);
  ASSERT_TRUE(session->Initialize().ok());
  Tensor feed = Tensor::Allocate(DType::kFloat32, {33, 784}).value();
  for (size_t i = 0; i < 33 * 784; ++i) {
    feed.values<float>()[i] = static_cast<float>(i % 89) / 89.0F;
  }
  for (int step = 0; step < 3; ++step) {
    const auto out = session->Run({{x, feed}}, {here, there}, {twice.node});
    ASSERT_TRUE(out.ok()) << out.status().ToString();
    // By hand, one element.
    double expected = 0;
    for (size_t k = 0; k < 784; ++k) {
      expected += static_cast<double>(feed.values<float>()[784 + k]) *
                  static_cast<double>(weights.values<float>()[k * 10 + 3]) * (1 << step);
    }
    EXPECT_NEAR((*out)[0].values<float>()[13], expected, 1e-3 * expected);
    EXPECT_NEAR((*out)[1].values<float>()[13], expected, 1e-3 * expected);
    const std::vector<double> a = (*out)[0].ToDoubles();
    const std::vector<double> b = (*out)[1].ToDoubles();
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-4 * a[i]) << i;
    }
  }
}

TEST_F(PlacedStepTest, UpdatesAndReadsOfAFarVariable) {
  Value v;
  {
    const DeviceScope scope(b_, "cpu:1");
    v = op::Variable(b_, "v", Vector({1, 2}));
  }
  const Value add = op::AssignAdd(b_, v, Vector({10, 10}));
  const Value before = op::Neg(b_, v);
  Value after;
  {
    const ControlScope controls(b_, {add});
    after = op::Neg(b_, v);
  }
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  for (int step = 0; step < 3; ++step) {
    const float base = 10.0F * static_cast<float>(step);
    const std::vector<Tensor> out = session->Run({}, {before, after, v, add}).value();
    EXPECT_THAT(Floats(out[0]), ElementsAre(-1 - base, -2 - base));
    EXPECT_THAT(Floats(out[1]), ElementsAre(-11 - base, -12 - base));
    EXPECT_THAT(Floats(out[2]), ElementsAre(1 + base, 2 + base));
    EXPECT_THAT(Floats(out[3]), ElementsAre(11 + base, 12 + base));
  }
}

TEST_F(PlacedStepTest, AViewIsSentWithItsOwnShape) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2, 3}, "x");
  const Value y = op::Neg(b_, x);
  const Value flat = op::Reshape(b_, y, Shape{6});
  Value sum;
  Value far;
  {
    const DeviceScope scope(b_, "cpu:1");
    sum = op::ReduceSum(b_, flat, {0});
    far = op::Square(b_, y);
  }
  const auto session = NewSession();
  const Tensor feed = Tensor::From<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}).value();
  const std::vector<Tensor> out = session->Run({{x, feed}}, {sum, far}).value();
  EXPECT_THAT(Floats(out[0]), ElementsAre(-21));
  EXPECT_THAT(Floats(out[1]), ElementsAre(1, 4, 9, 16, 25, 36));
}

TEST_F(PlacedStepTest, ATargetIsRunWhereverItIs) {
  Value v;
  {
    const DeviceScope scope(b_, "cpu:2");
    v = op::Variable(b_, "v", Vector({1}));
  }
  Node* group = op::Group(b_, std::vector<Value>{op::AssignAdd(b_, v, Vector({1}))});
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(session->Run({}, {}, {group}).ok());
  EXPECT_EQ(session->variables().Read("v")->values<float>()[0], 2);
}

TEST_F(PlacedStepTest, PlacedSignaturesMayRunAtTheSameTime) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{4}, "x");
  Value forth;
  {
    const DeviceScope scope(b_, "cpu:1");
    forth = op::Neg(b_, op::Square(b_, op::Abs(b_, x)));
  }
  const Value back = op::Add(b_, forth, x);
  Value last;
  {
    const DeviceScope scope(b_, "cpu:2");
    last = op::Sub(b_, back, forth);
  }
  const auto session = NewSession();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const Tensor feed = Tensor::From<float>(Shape{4}, {static_cast<float>(t), 1, 2, 3}).value();
      for (int step = 0; step < 100; ++step) {
        // Two signatures, which share devices.
        const auto out = session->Run(
            {{x, feed}}, t % 2 == 0 ? std::vector<Value>{last} : std::vector<Value>{last, back});
        wrong[t] += out.ok() && SameBits((*out)[0], feed) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// An index out of range fails in the middle of a part, which others wait for and which waits for
// others.
TEST_F(PlacedStepTest, AnErrorInAnyPartEndsTheStepAndNamesItsCause) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{3, 1}, "x");
  std::vector<Value> indices;
  Value flow = x;
  for (int device = 0; device < 3; ++device) {
    const DeviceScope scope(b_, "cpu:" + std::to_string(device));
    indices.push_back(op::Placeholder(b_, DType::kInt32, Shape{3}));
    const NameScope name(b_, "part" + std::to_string(device));
    flow = op::Gather(b_, op::Neg(b_, flow), indices.back());
  }
  const Value end = op::Neg(b_, flow);
  const auto session = NewSession();
  const Tensor good = Tensor::From<int32_t>(Shape{3}, {2, 1, 0}).value();
  const Tensor bad = Tensor::From<int32_t>(Shape{3}, {0, 7, 0}).value();
  const Tensor feed = Tensor::From<float>(Shape{3, 1}, {1, 2, 3}).value();
  for (int failing = 0; failing < 3; ++failing) {
    Session::FeedList feeds = {{x, feed}};
    for (int device = 0; device < 3; ++device) {
      feeds.emplace_back(indices[static_cast<size_t>(device)], device == failing ? bad : good);
    }
    const Status status = session->Run(feeds, {end}).status();
    EXPECT_THAT(
        status.ToString(),
        AllOf(HasSubstr("op Gather 'part" + std::to_string(failing) + "/Gather'"),
              HasSubstr("/device:CPU:" + std::to_string(failing)), Not(HasSubstr("CANCELLED"))));
    // The session is as good as before.
    for (size_t i = 1; i < feeds.size(); ++i) {
      feeds[i].second = good;
    }
    const auto out = session->Run(feeds, {end});
    ASSERT_TRUE(out.ok()) << out.status().ToString();
    EXPECT_THAT(Floats((*out)[0]), ElementsAre(3, 2, 1));
  }
}

TEST_F(PlacedStepTest, AnUninitialisedVariableEndsTheStep) {
  Value v;
  {
    const DeviceScope scope(b_, "cpu:1");
    v = op::Variable(b_, "v", Vector({1}));
  }
  const Value y = op::Neg(b_, v);
  const auto session = NewSession();
  const Status status = session->Run({}, {y}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("variable 'v'"));
}

TEST_F(PlacedStepTest, ExchangedVariablesAreAnErrorAsOnOneDevice) {
  const Value v = op::Variable(b_, "v", Vector({1}));
  Value w;
  {
    const DeviceScope scope(b_, "cpu:1");
    w = op::Variable(b_, "w", Vector({2}));
  }
  const Value a = op::Assign(b_, v, w);
  const Value c = op::Assign(b_, w, v);
  const auto session = NewSession();
  EXPECT_THAT(session->Run({}, {}, {a.node, c.node}).status().message(),
              HasSubstr("put a copy of one value in between"));
}

TEST_F(PlacedStepTest, RandomGraphsGiveTheBitsOfOneDevice) {
  constexpr uint32_t kGraphs = 60;
  int compared = 0;
  for (uint32_t seed = 1; seed <= kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(seed, 3);
    ASSERT_TRUE(random.b.status().ok()) << random.b.status().ToString();
    const auto placed = Session::Create(random.graph, {.devices = 3}).value();
    const auto whole = Session::Create(random.graph, {.devices = 3}).value();
    const Status initialized = placed->Initialize();
    ASSERT_TRUE(initialized.ok()) << initialized.ToString();
    ASSERT_TRUE(whole->Initialize().ok());
    const Signature signature{random.feeds, random.fetches, {random.target}};
    Callable* in_parts = placed->Prepare(signature).value();
    Callable* at_once = whole->Prepare(signature, 0).value();
    for (int step = 0; step < 4; ++step) {
      const std::vector<Tensor> feeds = random.Feeds(step % 3);
      const StepInfo info{.seed = seed, .step = step};
      std::vector<Tensor> got(random.fetches.size());
      std::vector<Tensor> expected(random.fetches.size());
      const Status status = in_parts->Run(feeds, got, info);
      const Status whole_status = at_once->Run(feeds, expected, info);
      ASSERT_EQ(status.code(), whole_status.code())
          << status.ToString() << " / " << whole_status.ToString();
      for (size_t i = 0; status.ok() && i < got.size(); ++i) {
        ASSERT_TRUE(SameBits(got[i], expected[i]))
            << "step " << step << ", fetch " << random.fetches[i].name() << "\n"
            << got[i].ToString() << "\n"
            << expected[i].ToString();
      }
      compared += status.ok() ? 1 : 0;
    }
    for (const Variable* variable : whole->variables().All()) {
      ASSERT_TRUE(SameBits(placed->variables().Read(variable->name).value(),
                           whole->variables().Read(variable->name).value()))
          << variable->name;
    }
  }
  EXPECT_GT(compared, 60) << "most graphs must be ones that run";
}

}  // namespace
}  // namespace lockstep::exec
