// Partial runs in a session of this process, on one device and on two.
#include "lockstep/exec/partial_runs.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/exec/session.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/random.h"
#include "lockstep/op/variable.h"

namespace lockstep::exec {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(30));
}

Tensor One(float value) {
  return Tensor::From<float>({1}, {value}).value();
}

// sum = x + 1 here, product = sum * y on the last device, after `bump`, which adds the sum to v;
// noise = a random number, shifted = noise + y.
class PartialRunsTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    Builder b(graph_);
    x_ = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim}, "x");
    y_ = op::Placeholder(b, DType::kFloat32, {1}, "y");
    const Value one = op::Const(b, One(1));
    v_ = op::Variable(b, "v", op::Const(b, One(100)));
    sum_ = op::Add(b, x_, one);
    bump_ = op::AssignAdd(b, v_, sum_);
    noise_ = op::RandomUniform(b, {1});
    const DeviceScope device(b, GetParam() == 1 ? "/cpu:0" : "/cpu:1");
    {
      const ControlScope after(b, {bump_});
      product_ = op::Mul(b, sum_, y_);
    }
    shifted_ = op::Add(b, noise_, y_);
    ASSERT_TRUE(b.status().ok()) << b.status().ToString();
    session_ = Session::Create(graph_, {.devices = GetParam(), .seed = 3}).value();
    ASSERT_TRUE(session_->Initialize().ok());
  }

  double V() { return session_->Run({}, {v_}).value().at(0).ToDoubles().at(0); }

  Result<double> Part(uint64_t run, const Session::FeedList& feeds, Value fetch) {
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out, session_->PartialRun(run, feeds, {fetch}));
    return out.at(0).ToDoubles().at(0);
  }

  Graph graph_{op::Catalog()};
  Value x_, y_, v_, sum_, bump_, noise_, product_, shifted_;
  std::unique_ptr<Session> session_;
};

TEST_P(PartialRunsTest, TheWholeIsTheSumOfItsParts) {
  for (int round = 0; round < 3; ++round) {
    const double before = V();
    const uint64_t run =
        session_
            ->PartialRunSetup({{x_, y_}, {sum_, product_, noise_, shifted_}, {bump_.node}}, Soon())
            .value();
    EXPECT_EQ(Part(run, {{x_, One(4)}}, sum_).value(), 5);
    EXPECT_EQ(V(), before);
    const double noise = Part(run, {}, noise_).value();
    // The product waits for the bump, which runs once.
    EXPECT_EQ(Part(run, {{y_, One(3)}}, product_).value(), 15);
    EXPECT_EQ(V(), before + 5);
    EXPECT_EQ(Part(run, {}, shifted_).value(), static_cast<double>(static_cast<float>(noise) + 3));
    const auto bumped = session_->PartialRun(run, {}, {}, {bump_.node});
    ASSERT_TRUE(bumped.ok()) << bumped.status().ToString();
    EXPECT_EQ(V(), before + 5);
    // All was fetched and has run.
    EXPECT_EQ(Part(run, {}, sum_).status().code(), StatusCode::kAborted);
  }
}

TEST_P(PartialRunsTest, AVariableShowsTheUpdatesOfEarlierParts) {
  const uint64_t run = session_->PartialRunSetup({{x_}, {bump_, v_}, {bump_.node}}, Soon()).value();
  ASSERT_TRUE(session_->PartialRun(run, {{x_, One(1)}}, {}, {bump_.node}).ok());
  EXPECT_EQ(Part(run, {}, v_).value(), 102);
  // What the update returned is the variable.
  EXPECT_EQ(Part(run, {}, bump_).value(), 102);
  EXPECT_EQ(V(), 102);
}

TEST_P(PartialRunsTest, MistakesLeaveTheRunAsItIs) {
  const uint64_t run = session_->PartialRunSetup({{x_, y_}, {sum_, product_}, {}}, Soon()).value();
  EXPECT_EQ(Part(run, {}, sum_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Part(run, {{x_, One(4)}}, noise_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Part(run, {{x_, One(4)}}, product_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Part(run, {{x_, One(4)}, {y_, One(2)}}, product_).value(), 10);
  EXPECT_EQ(Part(run, {{x_, One(4)}}, sum_).status().message(), "x was fed before");
  EXPECT_EQ(Part(run, {}, product_).status().message(), product_.name() + " was fetched before");
  EXPECT_EQ(Part(run, {}, sum_).value(), 5);
  EXPECT_EQ(Part(run + 1, {}, sum_).status().code(), StatusCode::kAborted);
}

TEST_P(PartialRunsTest, AnErrorOfAnOpEndsIt) {
  const uint64_t run = session_->PartialRunSetup({{x_, y_}, {sum_, product_}, {}}, Soon()).value();
  // v has one element, so that three cannot be added.
  const Tensor three = Tensor::From<float>({3}, {1, 2, 3}).value();
  const auto failed = session_->PartialRun(run, {{x_, three}, {y_, One(2)}}, {product_});
  EXPECT_FALSE(failed.ok());
  EXPECT_NE(failed.status().ToString().find("a partial run, which ends with this"),
            std::string::npos)
      << failed.status().ToString();
  EXPECT_EQ(Part(run, {}, sum_).status().code(), StatusCode::kAborted);
}

TEST_P(PartialRunsTest, OneThatIsNotFinishedInTimeSaysWhatWasMissing) {
  const uint64_t run =
      session_->PartialRunSetup({{x_, y_}, {sum_, product_}, {}}, Deadline::After({})).value();
  const Status late = Part(run, {{x_, One(4)}}, sum_).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_NE(late.message().find(product_.name()), std::string::npos) << late.ToString();
  EXPECT_EQ(Part(run, {{x_, One(4)}}, sum_).status().code(), StatusCode::kAborted);
}

TEST_P(PartialRunsTest, ManyAtATimeAndNotTooMany) {
  std::vector<std::thread> threads;
  std::vector<double> products(8);
  for (size_t i = 0; i < products.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto number = static_cast<float>(i);
      const uint64_t run = session_->PartialRunSetup({{x_, y_}, {product_}, {}}, Soon()).value();
      EXPECT_TRUE(session_->PartialRun(run, {{x_, One(number)}}, {}).ok());
      products[i] = Part(run, {{y_, One(2)}}, product_).value();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (size_t i = 0; i < products.size(); ++i) {
    EXPECT_EQ(products[i], 2.0 * (static_cast<double>(i) + 1));
  }
  // Runs that are late make room.
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(session_->PartialRunSetup({{x_}, {sum_}, {}}, Deadline::After({})).ok());
  }
  Status status;
  int begun = 0;
  while (status.ok() && begun < 2000) {
    status = session_->PartialRunSetup({{x_}, {sum_}, {}}, Soon()).status();
    ++begun;
  }
  EXPECT_EQ(begun, 1001);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(Devices, PartialRunsTest, testing::Values(1, 2));

}  // namespace
}  // namespace lockstep::exec
