// Sessions over real connections on loopback: clients, masters and workers in one process.
#include "lockstep/cluster/client/remote_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/cluster/testing/soon.h"
#include "lockstep/graph/builder.h"
#include "lockstep/graph/serialize.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

RemoteSessionOptions Options() {
  RemoteSessionOptions options;
  options.connect_timeout = milliseconds(30'000);
  options.step_timeout = milliseconds(30'000);
  return options;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// y = (x * w on task 1) + b on task 2, where w and b live.
class RemoteSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_ = std::make_unique<LocalCluster>(LocalSpec({{"worker", 3}}),
                                              ServerOptions{.heartbeat = milliseconds(1000)});
    const Status status = cluster_->Start(Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
    Builder b(graph_);
    {
      DeviceScope device(b, "/job:worker/task:0");
      x_ = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim, 2}, "x");
    }
    Value product;
    {
      DeviceScope device(b, "/job:worker/task:1");
      w_ = op::Variable(b, "w", op::Const(b, Tensor::From<float>({2, 2}, {1, 2, 3, 4})));
      product = op::MatMul(b, x_, w_);
    }
    {
      DeviceScope device(b, "/job:worker/task:2");
      b_ = op::Variable(b, "b", op::Const(b, Tensor::From<float>({2}, {10, 20})));
      y_ = op::Add(b, product, b_);
      bump_ = op::AssignAdd(b, b_, op::Const(b, Tensor::From<float>({2}, {1, 1})));
    }
    ASSERT_TRUE(b.status().ok()) << b.status().ToString();
  }

  void TearDown() override {
    const Status status = cluster_->Stop(Soon());
    EXPECT_TRUE(status.ok() || expect_bad_stop_) << status.ToString();
  }

  static Tensor Batch(int rows) {
    Tensor batch = Tensor::Zeros(DType::kFloat32, {rows, 2}).value();
    for (int i = 0; i < rows * 2; ++i) {
      batch.values<float>()[static_cast<size_t>(i)] = static_cast<float>(i);
    }
    return batch;
  }

  // By hand.
  static std::vector<double> Expected(int rows, double bumps) {
    std::vector<double> expected;
    for (int i = 0; i < rows; ++i) {
      const double p = 2 * i;
      const double q = 2 * i + 1;
      expected.push_back(p * 1 + q * 3 + 10 + bumps);
      expected.push_back(p * 2 + q * 4 + 20 + bumps);
    }
    return expected;
  }

  Graph graph_{op::Catalog()};
  Value x_, w_, b_, y_, bump_;
  std::unique_ptr<LocalCluster> cluster_;
  bool expect_bad_stop_ = false;
};

TEST_F(RemoteSessionTest, InProcessAndByTarget) {
  auto local = RemoteSession::Create(graph_, cluster_->server(0), Options());
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  const Status init = (*local)->Initialize();
  ASSERT_TRUE(init.ok()) << init.ToString();
  auto remote = RemoteSession::Create(graph_, cluster_->server(1).target(), Options());
  ASSERT_TRUE(remote.ok()) << remote.status().ToString();
  for (RemoteSession* session : {local->get(), remote->get()}) {
    for (const int rows : {3, 1, 0, 3, 40}) {
      const auto result = session->Run({{x_, Batch(rows)}}, {y_});
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      EXPECT_EQ(result->at(0).ToDoubles(), Expected(rows, 0));
    }
  }
}

TEST_F(RemoteSessionTest, VariablesOutliveTheClient) {
  {
    auto session = RemoteSession::Create(graph_, cluster_->server(2).target(), Options()).value();
    ASSERT_TRUE(session->Initialize().ok());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(session->Run({}, {}, {bump_.node}).ok());
    }
  }
  auto session = RemoteSession::Create(graph_, cluster_->server(0), Options()).value();
  const auto result = session->Run({{x_, Batch(2)}}, {y_});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->at(0).ToDoubles(), Expected(2, 5));
  // Until they are reset; then sessions of that master are gone too.
  const Status reset = RemoteSession::Reset(cluster_->server(0).target(), {}, {}, Soon());
  ASSERT_TRUE(reset.ok()) << reset.ToString();
  EXPECT_EQ(session->Run({{x_, Batch(2)}}, {y_}).status().code(), StatusCode::kAborted);
  auto after = RemoteSession::Create(graph_, cluster_->server(0), Options()).value();
  EXPECT_EQ(after->Run({{x_, Batch(2)}}, {y_}).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(RemoteSession::Reset(cluster_->server(0), {}, Soon()).ok());
  EXPECT_EQ(after->Run({{x_, Batch(2)}}, {y_}).status().code(), StatusCode::kAborted);
}

TEST_F(RemoteSessionTest, IsolatedSessionsHaveTheirOwnVariables) {
  RemoteSessionOptions options = Options();
  options.config.server_defaults = false;
  options.config.isolate = true;
  auto first = RemoteSession::Create(graph_, cluster_->server(0), options).value();
  auto second = RemoteSession::Create(graph_, cluster_->server(0), options).value();
  ASSERT_TRUE(first->Initialize().ok());
  EXPECT_TRUE(first->Run({{x_, Batch(1)}}, {y_}).ok());
  EXPECT_EQ(second->Run({{x_, Batch(1)}}, {y_}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(RemoteSessionTest, Callables) {
  auto session = RemoteSession::Create(graph_, cluster_->server(1).target(), Options()).value();
  ASSERT_TRUE(session->Initialize().ok());
  auto callable = session->MakeCallable({x_}, {y_});
  ASSERT_TRUE(callable.ok()) << callable.status().ToString();
  for (int i = 0; i < 10; ++i) {
    const auto result = callable->Run({Batch(2)});
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result->at(0).ToDoubles(), Expected(2, 0));
  }
  EXPECT_TRUE(session->ReleaseCallable(*callable).ok());
  EXPECT_EQ(callable->Run({Batch(2)}).status().code(), StatusCode::kAborted);
}

TEST_F(RemoteSessionTest, ErrorsNameOpAndTask) {
  auto session = RemoteSession::Create(graph_, cluster_->server(0).target(), Options()).value();
  // Not initialised: the variable, and the task where it is.
  const Status status = session->Run({{x_, Batch(2)}}, {y_}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), "/job:worker/task:")) << status.ToString();
  const Status shape =
      session->Run({{x_, Tensor::Zeros(DType::kFloat32, {2, 3}).value()}}, {y_}).status();
  EXPECT_EQ(shape.code(), StatusCode::kInvalidArgument) << shape.ToString();
  EXPECT_TRUE(Contains(shape.ToString(), "'x'")) << shape.ToString();
  const Status name = session->RunByName({}, {"nothing"}).status();
  EXPECT_EQ(name.code(), StatusCode::kNotFound) << name.ToString();
  // After an error the session goes on.
  ASSERT_TRUE(session->Initialize().ok());
  EXPECT_TRUE(session->Run({{x_, Batch(2)}}, {y_}).ok());
}

TEST_F(RemoteSessionTest, TheGraphMayGrow) {
  auto session = RemoteSession::Create(graph_, cluster_->server(1).target(), Options()).value();
  ASSERT_TRUE(session->Initialize().ok());
  Builder b(graph_);
  Value twice;
  {
    DeviceScope device(b, "/job:worker/task:1");
    twice = op::Add(b, y_, y_);
  }
  const auto result = session->Run({{x_, Batch(1)}}, {twice});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  std::vector<double> expected = Expected(1, 0);
  for (double& value : expected) {
    value *= 2;
  }
  EXPECT_EQ(result->at(0).ToDoubles(), expected);
}

TEST_F(RemoteSessionTest, DevicesAndPlacement) {
  auto session = RemoteSession::Create(graph_, cluster_->server(1).target(), Options()).value();
  const auto devices = session->ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();
  EXPECT_EQ(devices->size(), 3U);
  ASSERT_TRUE(session->Initialize().ok());
  std::string placement;
  ASSERT_TRUE(session->Run({{x_, Batch(1)}}, {y_}, {}, {.placement = &placement}).ok());
  EXPECT_TRUE(Contains(placement, "/job:worker/replica:0/task:2/device:CPU:0")) << placement;
}

TEST_F(RemoteSessionTest, FiltersLeaveTasksOut) {
  RemoteSessionOptions options = Options();
  options.config.device_filters = {"/job:worker/task:1"};
  const auto session = RemoteSession::Create(graph_, cluster_->server(0), options);
  // The graph needs task 2.
  EXPECT_EQ(session.status().code(), StatusCode::kInvalidArgument) << session.status().ToString();
  EXPECT_TRUE(Contains(session.status().ToString(), "/job:worker/task:2"))
      << session.status().ToString();
}

TEST_F(RemoteSessionTest, LargeTensorsCross) {
  Builder b(graph_);
  Value big;
  Value sum;
  {
    DeviceScope device(b, "/job:worker/task:0");
    big = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim}, "big");
  }
  {
    DeviceScope device(b, "/job:worker/task:1");
    sum = op::Add(b, big, big);
  }
  auto session = RemoteSession::Create(graph_, cluster_->server(2).target(), Options()).value();
  Tensor feed = Tensor::Zeros(DType::kFloat32, {1'500'000}).value();
  for (size_t i = 0; i < 1'500'000; ++i) {
    feed.values<float>()[i] = static_cast<float>(i % 1000);
  }
  const auto result = session->Run({{big, feed}}, {sum});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  const auto values = result->at(0).values<float>();
  for (size_t i = 0; i < 1'500'000; i += 997) {
    ASSERT_EQ(values[i], static_cast<float>(2 * (i % 1000)));
  }
}

TEST_F(RemoteSessionTest, ManyClientsAtOnce) {
  auto first = RemoteSession::Create(graph_, cluster_->server(0), Options()).value();
  ASSERT_TRUE(first->Initialize().ok());
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      auto session = RemoteSession::Create(graph_, cluster_->server(0).target(), Options()).value();
      for (int step = 0; step < 10; ++step) {
        const auto result = session->Run({{x_, Batch(1 + i)}}, {y_});
        right += result.ok() && result->at(0).ToDoubles() == Expected(1 + i, 0) ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(right.load(), 40);
}

TEST_F(RemoteSessionTest, AStepInSeveralParts) {
  Value sum;
  Value product;
  Value factor;
  {
    Builder b(graph_);
    {
      DeviceScope device(b, "/job:worker/task:1");
      sum = op::Add(b, x_, x_);
    }
    DeviceScope device(b, "/job:worker/task:2");
    factor = op::Placeholder(b, DType::kFloat32, {2}, "factor");
    const ControlScope after(b, {bump_});
    product = op::Mul(b, op::Add(b, sum, b_), factor);
    ASSERT_TRUE(b.status().ok()) << b.status().ToString();
  }
  auto local = RemoteSession::Create(graph_, cluster_->server(0), Options()).value();
  ASSERT_TRUE(local->Initialize().ok());
  auto remote = RemoteSession::Create(graph_, cluster_->server(1).target(), Options()).value();
  const Tensor factors = Tensor::From<float>({2}, {1, 100}).value();
  double bumps = 0;
  for (RemoteSession* session : {local.get(), remote.get(), local.get()}) {
    const auto run = session->PartialRunSetup({x_, factor}, {sum, product}, {bump_.node});
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    EXPECT_EQ(session->PartialRun(*run, {}, {sum}).status().code(), StatusCode::kInvalidArgument);
    const auto first = session->PartialRun(*run, {{x_, Batch(2)}}, {sum});
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    EXPECT_EQ(first->at(0).ToDoubles(), (std::vector<double>{0, 2, 4, 6}));
    EXPECT_EQ(session->PartialRun(*run, {{x_, Batch(2)}}, {product}).status().message(),
              "x was fed before");
    // The variable is updated once, and the product sees it in this part or the next.
    ASSERT_TRUE(session->PartialRun(*run, {}, {}, {bump_.node}).ok());
    bumps += 1;
    const auto second = session->PartialRun(*run, {{factor, factors}}, {product});
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    EXPECT_EQ(second->at(0).ToDoubles(), (std::vector<double>{10 + bumps, 100 * (22 + bumps),
                                                              14 + bumps, 100 * (26 + bumps)}));
    EXPECT_EQ(session->PartialRun(*run, {}, {product}).status().code(), StatusCode::kAborted);
  }
}

TEST_F(RemoteSessionTest, APartialRunEndsWithItsTimeAndWithItsSession) {
  auto session = RemoteSession::Create(graph_, cluster_->server(1).target(), Options()).value();
  ASSERT_TRUE(session->Initialize().ok());
  const auto late = session->PartialRunSetup({x_}, {y_}, {}, {.timeout = milliseconds(1)});
  ASSERT_TRUE(late.ok()) << late.status().ToString();
  std::this_thread::sleep_for(milliseconds(20));
  const Status status = session->PartialRun(*late, {{x_, Batch(1)}}, {y_}).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), y_.name())) << status.ToString();
  // One whose graph grows.
  const auto old = session->PartialRunSetup({x_}, {y_}).value();
  Builder b(graph_);
  (void)op::Add(b, y_, y_);
  EXPECT_EQ(session->PartialRun(old, {{x_, Batch(1)}}, {y_}).status().code(), StatusCode::kAborted);
  const auto left = session->PartialRunSetup({x_}, {y_}).value();
  ASSERT_TRUE(session->Close().ok());
  EXPECT_FALSE(session->PartialRun(left, {{x_, Batch(1)}}, {y_}).ok());
}

TEST_F(RemoteSessionTest, ALostTaskEndsTheStep) {
  auto session = RemoteSession::Create(graph_, cluster_->server(0), Options()).value();
  ASSERT_TRUE(session->Initialize().ok());
  cluster_->Kill(2);
  const auto begin = Deadline::Clock::now();
  Status status;
  while (status.ok()) {
    status = session->Run({{x_, Batch(2)}}, {y_}).status();
  }
  EXPECT_LT(Deadline::Clock::now() - begin, milliseconds(2000));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), "/job:worker/task:2")) << status.ToString();
  expect_bad_stop_ = true;
}

TEST_F(RemoteSessionTest, ASessionWhoseClientVanishesIsClosed) {
  // A client that makes a session and is never heard of again.
  const auto master = cluster_->server(0).master();
  const std::string bytes = SerializeGraph(graph_).value();
  const auto handle = master->CreateSession(bytes, {.lease = milliseconds(600)}, Soon());
  ASSERT_TRUE(handle.ok()) << handle.status().ToString();
  StepRequest step{.session = handle->session, .signature = {}, .feeds = {}, .deadline = Soon()};
  for (const Value& value : graph_.Collection(collection::kInitializers)) {
    step.signature.targets.push_back(value.node->name);
  }
  ASSERT_TRUE(master->RunStep(step).ok());
  // One that is heard of is kept, however long it does nothing.
  RemoteSessionOptions options = Options();
  options.lease = milliseconds(600);
  auto kept = RemoteSession::Create(graph_, cluster_->server(1).target(), options).value();
  while (master->KeepSession(handle->session, Soon()).ok()) {
    std::this_thread::sleep_for(milliseconds(700));
  }
  EXPECT_EQ(master->RunStep(step).status().code(), StatusCode::kAborted);
  // The variables that it made are still there.
  const auto result = kept->Run({{x_, Batch(2)}}, {y_});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->at(0).ToDoubles(), Expected(2, 0));
}

TEST_F(RemoteSessionTest, BadTargets) {
  EXPECT_EQ(RemoteSession::Create(graph_, "localhost:1", Options()).status().code(),
            StatusCode::kInvalidArgument);
  RemoteSessionOptions options = Options();
  options.connect_timeout = milliseconds(200);
  const int port = FreePorts(1).front();
  const Status status =
      RemoteSession::Create(graph_, "grpc://127.0.0.1:" + std::to_string(port), options).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
}

}  // namespace
}  // namespace lockstep::cluster
