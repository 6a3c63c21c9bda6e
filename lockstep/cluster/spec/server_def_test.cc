#include "lockstep/cluster/spec/server_def.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

ClusterSpec Spec() {
  return ClusterSpec::Create({{"ps", {"p0:1"}}, {"worker", {"w0:1", "w1:1", "w2:1"}}}).value();
}

std::string Message(const Result<ServerDef>& def) {
  return def.ok() ? "ok" : def.status().message();
}

TEST(ServerDefTest, NamedTask) {
  const ServerDef def = ServerDef::Create(Spec(), {.job = "worker", .index = 1}).value();
  EXPECT_EQ(def.task(), (TaskId{"worker", 1}));
  EXPECT_EQ(def.number(), 2);
  EXPECT_EQ(def.address().ToString(), "w1:1");
  EXPECT_EQ(def.transport(), "auto");
  EXPECT_FALSE(def.session().allow_soft_placement);
  EXPECT_EQ(def.VisibleTasks(), (std::vector<int>{0, 1, 2, 3}));
}

TEST(ServerDefTest, TaskIsInferredOnlyIfThereIsOne) {
  EXPECT_EQ(ServerDef::Create(Spec(), {.job = "ps"})->task(), (TaskId{"ps", 0}));
  const ClusterSpec one = ClusterSpec::Create({{"local", {"a:1"}}}).value();
  EXPECT_EQ(ServerDef::Create(one, {})->task(), (TaskId{"local", 0}));
  ClusterSpec::Jobs sparse;
  sparse["worker"].emplace(7, net::Address::Parse("a:1").value());
  EXPECT_EQ(ServerDef::Create(ClusterSpec::FromJobs(sparse).value(), {})->task(),
            (TaskId{"worker", 7}));
  EXPECT_EQ(Message(ServerDef::Create(Spec(), {})),
            "the cluster has several jobs (ps, worker): the job of this task must be given");
  EXPECT_EQ(Message(ServerDef::Create(Spec(), {.job = "worker"})),
            "/job:worker has 3 tasks: the index of this task must be given");
  EXPECT_EQ(Message(ServerDef::Create(ClusterSpec(), {})), "the cluster has no tasks");
}

TEST(ServerDefTest, TasksThatAreNotThere) {
  EXPECT_EQ(Message(ServerDef::Create(Spec(), {.job = "worker", .index = 3})),
            "there is no /job:worker/task:3 in the cluster: /job:worker has 3 tasks, 0 to 2");
  EXPECT_EQ(Message(ServerDef::Create(Spec(), {.job = "wroker", .index = 0})),
            "there is no job 'wroker' in the cluster, did you mean 'worker'?: it has ps, worker");
  EXPECT_EQ(ServerDef::Create(Spec(), {.job = "ps", .index = -1}).status().code(),
            StatusCode::kNotFound);
}

TEST(ServerDefTest, Options) {
  const auto with = [](ServerDef::Options options) {
    options.job = "ps";
    return ServerDef::Create(Spec(), std::move(options));
  };
  EXPECT_EQ(with({.port = 99})->address().ToString(), "p0:99");
  EXPECT_NE(Message(with({.port = 65536})).find("port 65536"), std::string::npos);
  EXPECT_NE(Message(with({.port = -1})).find("port -1"), std::string::npos);
  EXPECT_EQ(with({.transport = "shm"})->transport(), "shm");
  EXPECT_NE(Message(with({.transport = "gprc"})).find("did you mean 'grpc'?: allowed are auto"),
            std::string::npos);
  EXPECT_NE(Message(with({.session = {.operation_timeout_ms = -1}})).find("-1 ms"),
            std::string::npos);
}

TEST(ServerDefTest, RangesOfPorts) {
  EXPECT_EQ(PortRange::Parse("5000").value(), (PortRange{5000, 5000}));
  EXPECT_EQ(PortRange::Parse("5000-5010").value(), (PortRange{5000, 5010}));
  EXPECT_EQ(PortRange::Parse("1-65535").value(), (PortRange{1, 65535}));
  for (const std::string text :
       {"", "-", "5000-", "-5000", "0", "0-5", "5-4", "65536", "1-65536", "a", "5000-a", "5000 ",
        "+5", "1-2-3", "1--2", "99999999999", "5000-99999999999"}) {
    const Status status = PortRange::Parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("'" + text + "' is no range of ports"), std::string::npos);
  }
  const auto with = [](PortRange range) {
    return ServerDef::Create(Spec(), {.job = "ps", .data_ports = range});
  };
  EXPECT_EQ(with({7, 9})->data_ports(), (PortRange{7, 9}));
  EXPECT_EQ(Message(with({9, 7})),
            "data ports from 9 to 7: allowed are ports from 1 to 65535, the smaller one first");
  EXPECT_FALSE(with({0, 7}).ok());
  EXPECT_FALSE(with({7, 65536}).ok());
}

TEST(ServerDefTest, FiltersHideTasks) {
  const auto visible = [](std::vector<std::string> filters) {
    return ServerDef::Create(Spec(),
                             {.job = "worker", .index = 1, .device_filters = std::move(filters)})
        ->VisibleTasks();
  };
  EXPECT_EQ(visible({"/job:ps"}), (std::vector<int>{0, 2}));
  EXPECT_EQ(visible({"/job:ps", "/job:worker/task:2"}), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(visible({"/job:nobody"}), (std::vector<int>{2}));
  EXPECT_EQ(visible({"/cpu:0"}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_FALSE(ServerDef::Create(Spec(), {.job = "ps", .device_filters = {"/task:x"}}).ok());
}

}  // namespace
}  // namespace lockstep::cluster
