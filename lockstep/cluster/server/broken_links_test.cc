// Data links that break between tasks that live: steps under way fail, later ones find new links,
// and nothing is registered again.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/cluster/testing/soon.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

// y = x added to itself at task 1, then at task 2.
class BrokenLinksTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto options = [](int) { return ServerOptions{.heartbeat = milliseconds(1000)}; };
    cluster_ = std::make_unique<LocalCluster>(LocalSpec({{"worker", 3}}), GetParam(), options);
    const Status started = cluster_->Start(Soon());
    ASSERT_TRUE(started.ok()) << started.ToString();
    Builder b(graph_);
    x_ = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim}, "x");
    {
      const DeviceScope device(b, "/job:worker/task:1");
      y_ = op::Add(b, x_, x_);
    }
    {
      const DeviceScope device(b, "/job:worker/task:2");
      y_ = op::Add(b, y_, y_);
    }
    ASSERT_TRUE(b.status().ok()) << b.status().ToString();
    session_ = RemoteSession::Create(graph_, cluster_->server(0), {}).value();
  }

  void TearDown() override {
    session_ = nullptr;
    const Status stopped = cluster_->Stop(Soon());
    EXPECT_TRUE(stopped.ok() || killed_) << stopped.ToString();
  }

  Status Step(int64_t elements) {
    LS_ASSIGN_OR_RETURN(const Tensor x, Tensor::Zeros(DType::kFloat32, {elements}));
    for (float& value : x.values<float>()) {
      value = 1.5F;
    }
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                        session_->Run({{x_, x}}, {y_}, {}, {.timeout = milliseconds(20'000)}));
    for (const float value : out[0].values<float>()) {
      if (value != 6.0F) {
        return Internal("a wrong result");
      }
    }
    return OkStatus();
  }

  Graph graph_{op::Catalog()};
  Value x_, y_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<RemoteSession> session_;
  bool killed_ = false;
};

TEST_P(BrokenLinksTest, AreMadeAgain) {
  const Status first = Step(10);
  ASSERT_TRUE(first.ok()) << first.ToString();
  // Between workers, and between the master and a worker; seen from either end.
  const std::pair<int, int> breaks[] = {{1, 2}, {2, 1}, {0, 1}, {2, 0}, {1, 2}};
  for (const auto& [self, peer] : breaks) {
    cluster_->server(self).transport()->FailPeer(peer, Unavailable("of this test"));
    // The step that meets the broken link says whose it is; the next one runs. A link of the
    // master's own is made again before the step begins.
    Status status = Step(100'000);
    if (!status.ok()) {
      EXPECT_NE(self, 0) << status.ToString();
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
      EXPECT_NE(status.ToString().find("/job:worker/task:"), std::string::npos)
          << status.ToString();
      status = Step(100'000);
    }
    ASSERT_TRUE(status.ok()) << self << " to " << peer << ": " << status.ToString();
    for (const int64_t elements : {0, 3, 100'000, 3}) {
      status = Step(elements);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_P(BrokenLinksTest, ATaskThatDoesNotComeBackIsNamed) {
  ASSERT_TRUE(Step(10).ok());
  cluster_->Kill(2);
  Status status;
  const auto begin = Deadline::Clock::now();
  for (int i = 0; i < 5; ++i) {
    status = Step(10);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_NE(status.ToString().find("/job:worker/task:2"), std::string::npos) << status.ToString();
  }
  EXPECT_LT(Deadline::Clock::now() - begin, milliseconds(20'000));
  // Else the chief waits for it to leave.
  session_ = nullptr;
  cluster_->Kill(0);
  killed_ = true;
}

INSTANTIATE_TEST_SUITE_P(Links, BrokenLinksTest, ::testing::Values("shm", "ucx", "grpc"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep::cluster
