#include "lockstep/exec/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/exec/testing/tensors.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Row(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::From<float>(Shape{1, count}, values).value();
}

class SessionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> NewSession(std::shared_ptr<VariableStore> store = nullptr) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    Result<std::unique_ptr<Session>> session = Session::Create(graph_, {}, std::move(store));
    EXPECT_TRUE(session.ok()) << session.status().ToString();
    return std::move(session).value();
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(SessionTest, RunsWithDifferentBatches) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "x");
  const Value w = op::Const(b_, Tensor::From<float>(Shape{2, 1}, {10, 1}));
  const Value y = op::MatMul(b_, x, w);
  const auto session = NewSession();
  EXPECT_THAT(Floats(session->Run({{x, Row({1, 2})}}, {y}).value()[0]), ElementsAre(12));
  const Tensor two = Tensor::From<float>(Shape{2, 2}, {1, 2, 3, 4}).value();
  EXPECT_THAT(Floats(session->Run({{x, two}}, {y}).value()[0]), ElementsAre(12, 34));
}

TEST_F(SessionTest, AnyValueMayBeFed) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "x");
  const Value hidden = op::MatMul(b_, x, x, false, true);
  const Value y = op::MatMul(b_, hidden, op::Const(b_, Row({3})));
  const auto session = NewSession();
  // x is not needed when what depends on it is fed.
  EXPECT_THAT(Floats(session->Run({{hidden, Row({2})}}, {y}).value()[0]), ElementsAre(6));
}

TEST_F(SessionTest, BadFeedsNameThePlaceholderAndItsLine) {
  const int line = __LINE__ + 1;
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "images");
  const Value y = op::Identity(b_, x);
  const auto session = NewSession();
  EXPECT_THAT(session->Run({}, {y}).status().message(),
              HasSubstr("op Placeholder 'images' (" + std::string(__FILE__) + ":" +
                        std::to_string(line) + ") must be fed: it is float32 [?, 2]"));
  EXPECT_THAT(session->Run({{x, Row({1, 2, 3})}}, {y}).status().message(),
              HasSubstr("is float32 [1, 3], expected float32 [?, 2]"));
  const Tensor ints = Tensor::From<int32_t>(Shape{1, 2}, {1, 2}).value();
  EXPECT_THAT(session->Run({{x, ints}}, {y}).status().message(), HasSubstr("is int32 [1, 2]"));
  EXPECT_THAT(session->Run({{x, Tensor()}}, {y}).status().message(), HasSubstr("holds no tensor"));
  EXPECT_THAT(session->Run({{x, Row({1, 2})}, {x, Row({1, 2})}}, {y}).status().message(),
              HasSubstr("is fed twice"));
  EXPECT_THAT(session->Run({{x, Row({1, 2})}}, {Value{}}).status().message(),
              HasSubstr("fetch 0 is not a value"));
}

TEST_F(SessionTest, ReadsSeeTheValuesFromBeforeTheStep) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Row({1})));
  const Value add = op::AssignAdd(b_, v, op::Const(b_, Row({10})));
  const Value seen = op::Identity(b_, v);
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const std::vector<Tensor> first = session->Run({}, {v, seen, add}).value();
  EXPECT_THAT(Floats(first[0]), ElementsAre(1));
  EXPECT_THAT(Floats(first[1]), ElementsAre(1));
  EXPECT_THAT(Floats(first[2]), ElementsAre(11));
  EXPECT_THAT(Floats(session->Run({}, {v}).value()[0]), ElementsAre(11));
}

TEST_F(SessionTest, AControlInputMakesAReadSeeTheWrite) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Row({1})));
  const Value add = op::AssignAdd(b_, v, op::Const(b_, Row({10})));
  Value after;
  {
    ControlScope controls(b_, {add});
    after = op::Identity(b_, v);
  }
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const std::vector<Tensor> out = session->Run({}, {v, after}).value();
  EXPECT_THAT(Floats(out[0]), ElementsAre(1));
  EXPECT_THAT(Floats(out[1]), ElementsAre(11));
}

TEST_F(SessionTest, ExchangingVariablesWithoutACopyIsAnError) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Row({1})));
  const Value w = op::Variable(b_, "w", op::Const(b_, Row({2})));
  const Value to_v = op::Assign(b_, v, w);
  const Value to_w = op::Assign(b_, w, v);
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  EXPECT_THAT(session->Run({}, {}, {to_v.node, to_w.node}).status().message(),
              HasSubstr("put a copy of one value in between"));
}

TEST_F(SessionTest, UninitialisedVariablesAreNamed) {
  const Value v = op::Variable(b_, "weights", op::Const(b_, Row({1})));
  const Value y = op::Identity(b_, v);
  const auto session = NewSession();
  const Status status = session->Run({}, {y}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("variable 'weights' is read before it was initialised"));
}

TEST_F(SessionTest, SessionsMayShareVariables) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Row({1})));
  const Value add = op::AssignAdd(b_, v, op::Const(b_, Row({10})));
  const auto store = std::make_shared<VariableStore>();
  const auto first = NewSession(store);
  const auto second = NewSession(store);
  ASSERT_TRUE(first->Initialize().ok());
  ASSERT_TRUE(second->Run({}, {}, {add.node}).ok());
  EXPECT_THAT(Floats(first->Run({}, {v}).value()[0]), ElementsAre(11));
}

TEST_F(SessionTest, AVariableOfAnotherShapeInTheStoreIsAnError) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Row({1})));
  const auto store = std::make_shared<VariableStore>();
  ASSERT_TRUE(store->GetOrCreate("v", DType::kFloat32, Shape{7}).ok());
  const auto session = NewSession(store);
  EXPECT_THAT(session->Run({}, {v}).status().message(),
              HasSubstr("variable 'v' is float32 [1, 1]"));
}

TEST_F(SessionTest, DevicesMustExist) {
  DeviceScope scope(b_, "cpu:1");
  op::Placeholder(b_, DType::kFloat32, Shape{}, "x");
  EXPECT_THAT(Session::Create(graph_, {}).status().message(),
              HasSubstr("is placed on /device:CPU:1; this process has the devices /device:CPU:0"));
  EXPECT_TRUE(Session::Create(graph_, {.devices = 2}).ok());
}

TEST_F(SessionTest, RunByName) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 1}, "x");
  op::MatMul(b_, x, op::Const(b_, Row({3})));
  const auto session = NewSession();
  EXPECT_THAT(Floats(session->RunByName({{"x:0", Row({2})}}, {"MatMul"}).value()[0]),
              ElementsAre(6));
  EXPECT_THAT(session->RunByName({}, {"MatMull"}).status().message(),
              HasSubstr("did you mean 'MatMul'?"));
}

TEST_F(SessionTest, AnEmptyBatchRuns) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "x");
  const Value y =
      op::MatMul(b_, x, op::Const(b_, Tensor::From<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})));
  const auto session = NewSession();
  const Tensor none = Tensor::Zeros(DType::kFloat32, Shape{0, 2}).value();
  EXPECT_EQ(session->Run({{x, none}}, {y}).value()[0].shape(), (Shape{0, 3}));
}

TEST_F(SessionTest, ReusesResultsThatAreGivenBack) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "x");
  const Value y = op::Identity(b_, x);
  const auto session = NewSession();
  Callable* callable = session->Prepare({{x}, {y}, {}}).value();
  const std::vector<Tensor> feeds = {Row({1, 2})};
  std::vector<Tensor> fetches(1);
  ASSERT_TRUE(callable->Run(feeds, fetches, {}).ok());
  const void* data = fetches[0].data();
  ASSERT_TRUE(callable->Run(feeds, fetches, {}).ok());
  EXPECT_EQ(fetches[0].data(), data);
  const Tensor kept = fetches[0];
  ASSERT_TRUE(callable->Run(feeds, fetches, {}).ok());
  EXPECT_NE(fetches[0].data(), data);
  EXPECT_EQ(kept.data(), data);
}

}  // namespace
}  // namespace lockstep::exec
