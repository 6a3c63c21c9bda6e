// Eight servers as threads of one process, whose tensors travel over a simulated network with
// scripted faults.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/cluster/testing/soon.h"
#include "lockstep/graph/builder.h"
#include "lockstep/net/sim/sim_network.h"
#include "lockstep/op/add_n.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

constexpr int kTasks = 8;
constexpr milliseconds kSimHeartbeat{2000};

net::SimOptions Network() {
  net::SimOptions options;
  options.num_tasks = kTasks;
  options.virtual_time = false;
  return options;
}

// Every task multiplies the feed by a variable of its own and gives the product to the next one,
// which adds it to its own; task 0 has the sum of all in the end. Tensors go around the ring, and
// from task 0 to every other one.
class SimClusterTest : public ::testing::Test {
 protected:
  void Start(const net::SimOptions& options) {
    network_ = std::make_unique<net::SimNetwork>(options);
    cluster_ =
        std::make_unique<LocalCluster>(LocalSpec({{"worker", kTasks}}), "sim", [this](int number) {
          ServerOptions server;
          server.heartbeat = kSimHeartbeat;
          // The network owns it.
          server.sim_transport =
              std::shared_ptr<net::Transport>(&network_->transport(number), [](net::Transport*) {});
          return server;
        });
    const Status status = cluster_->Start(Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
    Builder b(graph_);
    Value sum;
    for (int task = 0; task < kTasks; ++task) {
      DeviceScope device(b, "/job:worker/task:" + std::to_string(task));
      if (task == 0) {
        x_ = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim}, "x");
        shared_ = op::Add(b, x_, x_);
      }
      const Value factor = op::Variable(b, "factor" + std::to_string(task),
                                        op::Const(b, Tensor::Scalar<float>(task + 1.0F)));
      const Value product = op::Mul(b, shared_, factor);
      sum = task == 0 ? product : op::Add(b, sum, product);
    }
    DeviceScope device(b, "/job:worker/task:0");
    y_ = op::Add(b, sum, x_);
    ASSERT_TRUE(b.status().ok()) << b.status().ToString();
    RemoteSessionOptions session;
    session.step_timeout = milliseconds(30'000);
    auto made = RemoteSession::Create(graph_, cluster_->server(0), session);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    session_ = std::move(made).value();
    const Status init = session_->Initialize();
    ASSERT_TRUE(init.ok()) << init.ToString();
  }

  void TearDown() override {
    session_.reset();
    if (cluster_ != nullptr) {
      (void)cluster_->Stop(Deadline::After(milliseconds(3000)));
    }
    cluster_.reset();
  }

  // One step; what comes must be right.
  Status Step(int size, float first, milliseconds timeout = milliseconds(0)) {
    std::vector<float> values(static_cast<size_t>(size));
    std::iota(values.begin(), values.end(), first);
    const Tensor feed = Tensor::From<float>({size}, values).value();
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                        session_->Run({{x_, feed}}, {y_}, {}, {.timeout = timeout}));
    for (int i = 0; i < size; ++i) {
      // 2 x (1 + ... + 8) + x
      const double expected = 73.0 * values[static_cast<size_t>(i)];
      EXPECT_EQ(out[0].values<float>()[static_cast<size_t>(i)], expected) << i << " of " << size;
    }
    return OkStatus();
  }

  std::unique_ptr<net::SimNetwork> network_;
  std::unique_ptr<LocalCluster> cluster_;
  Graph graph_{op::Catalog()};
  Value x_, shared_, y_;
  std::unique_ptr<RemoteSession> session_;
};

TEST_F(SimClusterTest, StepsOfEverySize) {
  net::SimOptions options = Network();
  options.jitter = std::chrono::microseconds(200);
  options.reorder = true;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  for (const int size : {1, 0, 7, 5000, 100'000, 1, 0}) {
    for (int step = 0; step < 5; ++step) {
      const Status status = Step(size, static_cast<float>(step));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_F(SimClusterTest, RunsOfOneSignatureAtTheSameTime) {
  net::SimOptions options = Network();
  options.jitter = std::chrono::microseconds(500);
  options.reorder = true;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  ASSERT_TRUE(Step(3, 0).ok());
  std::vector<std::thread> clients;
  std::vector<Status> results(6);
  for (int client = 0; client < 6; ++client) {
    clients.emplace_back([this, client, &result = results[static_cast<size_t>(client)]] {
      for (int step = 0; step < 20 && result.ok(); ++step) {
        result = Step(3, static_cast<float>(100 * client + step));
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  for (const Status& result : results) {
    EXPECT_TRUE(result.ok()) << result.ToString();
  }
}

TEST_F(SimClusterTest, ASlowLinkOnlyTakesTime) {
  ASSERT_NO_FATAL_FAILURE(Start(Network()));
  network_->DelayLink(3, 4, milliseconds(100));
  const auto begin = Deadline::Clock::now();
  const Status status = Step(4, 1);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_GE(Deadline::Clock::now() - begin, milliseconds(100));
}

TEST_F(SimClusterTest, ALostMessageEndsTheStepByItsDeadline) {
  ASSERT_NO_FATAL_FAILURE(Start(Network()));
  ASSERT_TRUE(Step(2, 1).ok());
  network_->DropMessage(5, 6, network_->counts(5, 6).messages);
  const Status status = Step(2, 1, milliseconds(500));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.ToString().find("/job:worker/"), std::string::npos) << status.ToString();
  // The next step is not harmed.
  const Status next = Step(2, 5);
  EXPECT_TRUE(next.ok()) << next.ToString();
}

TEST_F(SimClusterTest, ATaskThatDiesInAStepIsNamed) {
  ASSERT_NO_FATAL_FAILURE(Start(Network()));
  ASSERT_TRUE(Step(2, 1).ok());
  int64_t sent = 0;
  for (int peer = 0; peer < kTasks; ++peer) {
    sent += network_->counts(5, peer).messages;
  }
  network_->KillTaskAtMessage(5, sent + 1);
  const auto begin = Deadline::Clock::now();
  Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) {
    status = Step(2, 1);
  }
  EXPECT_LT(Deadline::Clock::now() - begin, 2 * kSimHeartbeat);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_NE(status.ToString().find("/job:worker/task:5"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace lockstep::cluster
