// Tensors of more than 2 GiB through placed steps: as a feed of another task, between tasks, and as
// a fetch, each over another kind of link (all of them: net/testing/large_test.cc). Takes 6 GiB of
// memory.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/fill.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

// More bytes than 32 bits with a sign can count, and no multiple of a piece.
constexpr int64_t kElements = (int64_t{2049} << 18) + 7;

Deadline Soon() {
  return Deadline::After(milliseconds(100'000));
}

class LargeTensorsTest : public ::testing::Test {
 protected:
  void Start(const std::string& link) {
    const auto options = [](int) { return ServerOptions{.heartbeat = milliseconds(10'000)}; };
    cluster_ = std::make_unique<LocalCluster>(LocalSpec({{"worker", 2}}), link, options);
    const Status started = cluster_->Start(Soon());
    ASSERT_TRUE(started.ok()) << started.ToString();
  }

  void TearDown() override {
    const Status stopped = cluster_->Stop(Soon());
    EXPECT_TRUE(stopped.ok()) << stopped.ToString();
  }

  Result<std::vector<Tensor>> Run(const RemoteSession::FeedList& feeds, Value fetch) {
    LS_TRY(builder_.status());
    LS_ASSIGN_OR_RETURN(const auto session, RemoteSession::Create(graph_, cluster_->server(0), {}));
    return session->Run(feeds, {fetch}, {}, {.timeout = milliseconds(100'000)});
  }

  Graph graph_{op::Catalog()};
  Builder builder_{graph_};
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(LargeTensorsTest, AsAFeed) {
  Start("grpc");
  Value x;
  Value sum;
  {
    const DeviceScope device(builder_, "/job:worker/task:1");
    x = op::Placeholder(builder_, DType::kFloat32, {kElements}, "x");
    sum = op::ReduceSum(builder_, x, {0});
  }
  const Tensor feed = Tensor::Zeros(DType::kFloat32, {kElements}).value();
  // In the first piece, beyond 2 GiB, and at the end.
  for (const int64_t at : {int64_t{0}, int64_t{1} << 29, kElements - 1}) {
    feed.values<float>()[static_cast<size_t>(at)] = 1.0F;
  }
  const auto out = Run({{x, feed}}, sum);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(out->at(0).ToDoubles(), std::vector<double>{3.0});
}

TEST_F(LargeTensorsTest, BetweenTasks) {
  Start("ucx");
  Value made;
  Value most;
  {
    const DeviceScope device(builder_, "/job:worker/task:1");
    made = op::Fill(builder_, {kElements}, 2.5);
  }
  {
    const DeviceScope device(builder_, "/job:worker/task:0");
    most = op::ReduceMax(builder_, made, {0});
  }
  const auto out = Run({}, most);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(out->at(0).ToDoubles(), std::vector<double>{2.5});
}

TEST_F(LargeTensorsTest, AsAFetch) {
  Start("shm");
  Value made;
  {
    const DeviceScope device(builder_, "/job:worker/task:1");
    made = op::Fill(builder_, {kElements}, 2.5);
  }
  const auto out = Run({}, made);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  const auto values = out->at(0).values<float>();
  ASSERT_EQ(static_cast<int64_t>(values.size()), kElements);
  EXPECT_EQ(values.back(), 2.5F);
  // Several in each page.
  for (size_t i = 0; i < values.size(); i += 301) {
    ASSERT_EQ(values[i], 2.5F) << "element " << i;
  }
}

}  // namespace
}  // namespace lockstep::cluster
