// Servers over real connections on loopback, several in one process.
#include "lockstep/cluster/server/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/cluster/testing/soon.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

// 2 s on an idle machine with two cores; this one may be busy.
constexpr double kCrowdSeconds = 40;

ServerDef DefOf(const ClusterSpec& spec, std::string job, int index, int port = 0) {
  ServerDef::Options options;
  options.job = std::move(job);
  options.index = index;
  options.port = port;
  return ServerDef::Create(spec, std::move(options)).value();
}

bool Contains(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST(ServerTest, AServerAlone) {
  auto server = Server::Create(DefOf(LocalSpec({{"worker", 1}}), "worker", 0), {}).value();
  EXPECT_EQ(server->state(), Server::State::kNew);
  ASSERT_TRUE(server->Start(Soon()).ok());
  EXPECT_EQ(server->state(), Server::State::kStarted);
  EXPECT_EQ(server->target(), "grpc://" + server->def().address().ToString());
  EXPECT_NE(server->incarnation(), 0U);
  EXPECT_EQ(server->Start(Soon()).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(server->Stop(Soon()).ok());
  EXPECT_EQ(server->state(), Server::State::kStopped);
  EXPECT_TRUE(server->Stop(Soon()).ok());
}

TEST(ServerTest, ParameterServersEndWithTheJob) {
  LocalCluster cluster(LocalSpec({{"ps", 2}, {"worker", 3}}), {});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  std::atomic<int> working{3};
  const Status status = cluster.ForEach([&](Server& server) {
    if (server.def().task().job == "ps") {
      const Status joined = server.Join(Soon());
      EXPECT_EQ(working.load(), 0) << "ended before the job";
      EXPECT_TRUE(joined.ok()) << joined.ToString();
    } else {
      LS_TRY(server.coordinator()->Barrier("work", {2, 3, 4}, Soon()));
      working.fetch_sub(1);
    }
    return server.Stop(Soon());
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ServerTest, StartsAgainOnTheSamePort) {
  LocalCluster cluster(LocalSpec({{"worker", 3}}), {});
  uint64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    const Status status = cluster.Start(Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_NE(cluster.server(1).incarnation(), before);
    before = cluster.server(1).incarnation();
    const Status stopped = cluster.Stop(Soon());
    ASSERT_TRUE(stopped.ok()) << stopped.ToString();
  }
}

TEST(ServerTest, MissingTasksAreNamed) {
  const ClusterSpec spec = LocalSpec({{"worker", 3}});
  auto chief = Server::Create(DefOf(spec, "worker", 0), {}).value();
  auto second = Server::Create(DefOf(spec, "worker", 1), {}).value();
  Status chief_status;
  std::thread starting([&] { chief_status = chief->Start(Deadline::After(milliseconds(1500))); });
  const Status status = second->Start(Deadline::After(milliseconds(1500)));
  starting.join();
  // Whoever of the two ended first left the other one alone.
  EXPECT_EQ(chief_status.code(), StatusCode::kDeadlineExceeded) << chief_status.ToString();
  EXPECT_TRUE(Contains(chief_status, "/job:worker/task:2")) << chief_status.ToString();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(chief->state(), Server::State::kNew);
  // Nothing is left behind: the same servers start once the third is there.
  auto third = Server::Create(DefOf(spec, "worker", 2), {}).value();
  std::vector<std::thread> threads;
  for (Server* server : {chief.get(), second.get(), third.get()}) {
    threads.emplace_back([server] {
      const Status started = server->Start(Soon());
      EXPECT_TRUE(started.ok()) << started.ToString();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(ServerTest, WithoutACoordinatorItIsNamed) {
  const ClusterSpec spec = LocalSpec({{"worker", 2}});
  auto server = Server::Create(DefOf(spec, "worker", 1), {}).value();
  const Status status = server->Start(Deadline::After(milliseconds(300)));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_TRUE(Contains(status, "the coordinator /job:worker/task:0")) << status.ToString();
}

TEST(ServerTest, OtherSpecsAreRefused) {
  const ClusterSpec spec = LocalSpec({{"worker", 2}});
  ClusterSpec::Jobs jobs;
  for (const ClusterSpec::Task& task : spec.tasks()) {
    jobs[task.id.job].emplace(task.id.index, task.address);
  }
  jobs["worker"].emplace(2, net::Address::Parse("127.0.0.1:9").value());
  const ClusterSpec other = ClusterSpec::FromJobs(jobs).value();
  auto chief = Server::Create(DefOf(spec, "worker", 0), {}).value();
  std::thread starting([&] { (void)chief->Start(Deadline::After(milliseconds(3000))); });
  auto second = Server::Create(DefOf(other, "worker", 1), {}).value();
  const Status status = second->Start(Soon());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_TRUE(Contains(status, "/job:worker/task:2")) << status.ToString();
  starting.join();
}

TEST(ServerTest, AnIndexIsTakenOnce) {
  const ClusterSpec spec = LocalSpec({{"worker", 2}});
  const ServerOptions options{.heartbeat = milliseconds(2000)};
  LocalCluster cluster(spec, options);
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  auto claimant = Server::Create(DefOf(spec, "worker", 1, FreePorts(1).front()), options).value();
  const Status status = claimant->Start(Soon());
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists) << status.ToString();
  EXPECT_TRUE(Contains(status, "/job:worker/task:1 is taken")) << status.ToString();
  EXPECT_TRUE(cluster.server(1).failure().ok());
  EXPECT_TRUE(cluster.Stop(Soon()).ok());
}

TEST(ServerTest, ALostTaskIsKnownWithinTwiceTheHeartbeat) {
  constexpr milliseconds kHeartbeat{2000};
  LocalCluster cluster(LocalSpec({{"worker", 4}}), {.heartbeat = kHeartbeat});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  const auto begin = Deadline::Clock::now();
  cluster.Kill(2);
  const Status status = cluster.ForEach([&](Server& server) {
    const Status joined = server.Join(Soon());
    EXPECT_LT(Deadline::Clock::now() - begin, kHeartbeat * 2);
    EXPECT_EQ(joined.code(), StatusCode::kUnavailable) << joined.ToString();
    EXPECT_TRUE(Contains(joined, "/job:worker/task:2 is lost")) << joined.ToString();
    return OkStatus();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(cluster.Stop(Soon()).ok());
}

TEST(ServerTest, ALostCoordinatorIsKnown) {
  constexpr milliseconds kHeartbeat{2000};
  LocalCluster cluster(LocalSpec({{"worker", 3}}), {.heartbeat = kHeartbeat});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  const auto begin = Deadline::Clock::now();
  cluster.Kill(0);
  const Status status = cluster.ForEach([&](Server& server) {
    const Status joined = server.Join(Soon());
    EXPECT_LT(Deadline::Clock::now() - begin, kHeartbeat * 5 / 2);
    EXPECT_TRUE(Contains(joined, "/job:worker/task:0")) << joined.ToString();
    return joined.code() == StatusCode::kUnavailable ? OkStatus() : joined;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ServerTest, ATaskThatGivesUpIsNoSuccess) {
  LocalCluster cluster(LocalSpec({{"ps", 1}, {"worker", 2}}), {});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  const Status status = cluster.ForEach([&](Server& server) {
    if (server.def().task() == TaskId{"worker", 1}) {
      return server.Stop(Soon(), InvalidArgument("the data are no good"));
    }
    const Status joined = server.Join(Soon());
    EXPECT_EQ(joined.code(), StatusCode::kUnavailable) << joined.ToString();
    EXPECT_TRUE(Contains(joined, "/job:worker/task:1 gave up: ")) << joined.ToString();
    EXPECT_TRUE(Contains(joined, "the data are no good")) << joined.ToString();
    return server.Stop(Soon());
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ServerTest, TransportsThatCannotBeUsedAreRefused) {
  const ClusterSpec spec = LocalSpec({{"worker", 1}});
  const auto start = [&](const std::string& transport, const ServerOptions& options) {
    ServerDef::Options def;
    def.transport = transport;
    auto server = Server::Create(ServerDef::Create(spec, std::move(def)).value(), options).value();
    return server->Start(Soon());
  };
  EXPECT_TRUE(start("shm", {}).ok());
  const Status sim = start("sim", {});
  EXPECT_EQ(sim.code(), StatusCode::kInvalidArgument) << sim.ToString();
}

TEST(ServerTest, JoinHasADeadline) {
  LocalCluster cluster(LocalSpec({{"ps", 1}, {"worker", 2}}), {});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  const Status status = cluster.server(0).Join(Deadline::After(milliseconds(1000)));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Contains(status, "active are /job:worker/task:0, /job:worker/task:1"))
      << status.ToString();
  EXPECT_TRUE(cluster.Stop(Soon()).ok());
}

TEST(ServerTest, StopEndsJoin) {
  auto server = Server::Create(DefOf(LocalSpec({{"worker", 1}}), "worker", 0), {}).value();
  ASSERT_TRUE(server->Start(Soon()).ok());
  Status joined;
  std::thread joining([&] { joined = server->Join(Soon()); });
  while (server->view().members[0].state != MemberState::kJoined) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(server->Stop(Soon()).ok());
  joining.join();
  EXPECT_EQ(joined.code(), StatusCode::kCancelled);
}

TEST(ServerTest, WrongSecretOfOneTask) {
  const ClusterSpec spec = LocalSpec({{"worker", 2}});
  auto chief = Server::Create(DefOf(spec, "worker", 0), {.security = {.job_secret = "a"}}).value();
  std::thread starting([&] { (void)chief->Start(Deadline::After(milliseconds(3000))); });
  auto second = Server::Create(DefOf(spec, "worker", 1), {.security = {.job_secret = "b"}}).value();
  const Status status = second->Start(Soon());
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  starting.join();
}

TEST(ServerTest, BeyondLoopbackTlsIsNeeded) {
  const ClusterSpec spec = ClusterSpec::Create({{"worker", {"192.0.2.1:4000"}}}).value();
  auto server = Server::Create(DefOf(spec, "worker", 0), {}).value();
  EXPECT_EQ(server->Start(Soon()).code(), StatusCode::kPermissionDenied);
}

TEST(ServerTest, ValuesAreShared) {
  LocalCluster cluster(LocalSpec({{"worker", 2}}), {});
  ASSERT_TRUE(cluster.Start(Soon()).ok());
  std::string got;
  std::thread waiting([&] { got = cluster.server(1).coordinator()->Get("k", Soon()).value(); });
  ASSERT_TRUE(cluster.server(0).coordinator()->Insert("k", "v", false, Soon()).ok());
  waiting.join();
  EXPECT_EQ(got, "v");
  CoordinatorClient& client = *cluster.server(1).coordinator();
  EXPECT_EQ(client.TryGet("other", Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client.Get("other", Deadline::After(milliseconds(50))).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client.List("", Soon())->size(), 1U);
  EXPECT_TRUE(client.Delete("k", false, Soon()).ok());
  EXPECT_EQ(client.List("", Soon())->size(), 0U);
  EXPECT_TRUE(cluster.Stop(Soon()).ok());
}

// A star: one connection per task, to the coordinator.
TEST(ServerTest, ACrowdFormsACluster) {
  constexpr int kTasks = 128;
  LocalCluster cluster(LocalSpec({{"worker", kTasks}}), {.heartbeat = milliseconds(10'000)});
  const auto begin = Deadline::Clock::now();
  const Status status = cluster.Start(Soon());
  const double elapsed = std::chrono::duration<double>(Deadline::Clock::now() - begin).count();
  ASSERT_TRUE(status.ok()) << status.ToString();
  RecordProperty("seconds", std::to_string(elapsed));
  std::printf("%d tasks form a cluster in %.2f s\n", kTasks, elapsed);
  EXPECT_LT(elapsed, kCrowdSeconds);
  EXPECT_TRUE(cluster.Stop(Soon()).ok());
}

}  // namespace
}  // namespace lockstep::cluster
