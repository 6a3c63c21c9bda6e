#include "lockstep/cluster/spec/cluster_spec.h"

#include <gtest/gtest.h>

#include "lockstep/base/sha256.h"

namespace lockstep::cluster {
namespace {

net::Address At(std::string_view text) {
  return net::Address::Parse(text).value();
}

template <class T>
std::string Message(const Result<T>& result) {
  return result.ok() ? "ok" : result.status().message();
}

ClusterSpec Dense() {
  return ClusterSpec::Create({{"worker", {"w0:1", "w1:1"}}, {"ps", {"p0:1"}}}).value();
}

ClusterSpec Sparse() {
  return ClusterSpec::FromJobs({{"worker", {{1, At("w1:1")}, {4, At("w4:1")}}}}).value();
}

TEST(ClusterSpecTest, Dense) {
  const ClusterSpec spec = Dense();
  EXPECT_FALSE(spec.empty());
  EXPECT_EQ(spec.size(), 3);
  EXPECT_EQ(spec.jobs(), (std::vector<std::string>{"ps", "worker"}));
  EXPECT_TRUE(spec.dense("worker").value());
  EXPECT_EQ(spec.num_tasks("worker").value(), 2);
  EXPECT_EQ(spec.task_indices("worker").value(), (std::vector<int>{0, 1}));
  EXPECT_EQ(spec.task_address({"worker", 1})->ToString(), "w1:1");
  EXPECT_EQ(spec.job_tasks("worker")->size(), 2U);
  EXPECT_TRUE(spec.has_job("ps"));
  EXPECT_FALSE(spec.has_job("chief"));
}

TEST(ClusterSpecTest, Sparse) {
  const ClusterSpec spec = Sparse();
  EXPECT_FALSE(spec.dense("worker").value());
  EXPECT_EQ(spec.num_tasks("worker").value(), 2);
  EXPECT_EQ(spec.task_indices("worker").value(), (std::vector<int>{1, 4}));
  const auto tasks = spec.job_tasks("worker").value();
  ASSERT_EQ(tasks.size(), 5U);
  EXPECT_FALSE(tasks[0].has_value());
  EXPECT_EQ(tasks[1]->ToString(), "w1:1");
  EXPECT_FALSE(tasks[3].has_value());
  EXPECT_EQ(tasks[4]->ToString(), "w4:1");
}

TEST(ClusterSpecTest, CanonicalOrderNumbersTheTasks) {
  ClusterSpec::Jobs jobs;
  for (int i = 0; i < 11; ++i) {
    jobs["worker"].emplace(i, At("h" + std::to_string(100 - i) + ":1"));
  }
  jobs["ps"].emplace(0, At("z:1"));
  const ClusterSpec spec = ClusterSpec::FromJobs(jobs).value();
  EXPECT_EQ(spec.tasks()[0].id, (TaskId{"ps", 0}));
  EXPECT_EQ(spec.tasks()[3].id, (TaskId{"worker", 2}));
  EXPECT_EQ(spec.tasks()[11].id, (TaskId{"worker", 10}));
  for (size_t i = 0; i < spec.tasks().size(); ++i) {
    EXPECT_EQ(spec.NumberOf(spec.tasks()[i].id), static_cast<int>(i));
  }
  EXPECT_EQ(spec.NumberOf({"worker", 11}), std::nullopt);
  EXPECT_EQ(spec.NumberOf({"a", 0}), std::nullopt);
  EXPECT_EQ(spec.NumberOf({"z", 0}), std::nullopt);
}

TEST(ClusterSpecTest, WhatIsNotThere) {
  EXPECT_EQ(Message(Dense().num_tasks("workers")),
            "there is no job 'workers' in the cluster, did you mean 'worker'?: it has ps, worker");
  EXPECT_EQ(Message(ClusterSpec().task_indices("ps")),
            "there is no job 'ps' in the cluster: it has no jobs");
  EXPECT_EQ(Message(Dense().task_address({"ps", 1})),
            "there is no /job:ps/task:1 in the cluster: /job:ps has 1 task, 0 to 0");
  EXPECT_EQ(Message(Sparse().task_address({"worker", 2})),
            "there is no /job:worker/task:2 in the cluster: /job:worker has 2 of the tasks 1 to 4");
  EXPECT_EQ(Dense().dense("x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Dense().job_tasks("x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Dense().task_address({"x", 0}).status().code(), StatusCode::kNotFound);
}

TEST(ClusterSpecTest, WhatCannotBe) {
  EXPECT_EQ(Message(ClusterSpec::Create({{"ps", {"a:1"}}, {"worker", {"b:1", "A:1"}}})),
            "/job:ps/task:0 and /job:worker/task:1 have the same address a:1");
  EXPECT_NE(Message(ClusterSpec::Create({{"worker", {"0.0.0.0:1"}}})).find("names no host"),
            std::string::npos);
  EXPECT_NE(Message(ClusterSpec::Create({{"a-b", {"a:1"}}})).find("job name 'a-b'"),
            std::string::npos);
  EXPECT_FALSE(ClusterSpec::Create({{"worker", {"a:0"}}}).ok());
  EXPECT_FALSE(ClusterSpec::FromJobs({{"worker", {{-1, At("a:1")}}}}).ok());
  EXPECT_FALSE(ClusterSpec::FromJobs({{"worker", {{kMaxTasks, At("a:1")}}}}).ok());
  const Status bad = ClusterSpec::Create({{"worker", {"a:1", "b"}}}).status();
  EXPECT_NE(bad.ToString().find("the port is missing"), std::string::npos);
  EXPECT_NE(bad.ToString().find("/job:worker/task:1"), std::string::npos);
}

TEST(ClusterSpecTest, AloneOnAnyPort) {
  const auto spec =
      ClusterSpec::Create({{"local", {"localhost:0", "localhost:0"}}}, net::PortZero::kAllowed);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->size(), 2);
}

TEST(ClusterSpecTest, EqualSpecsHaveEqualBytes) {
  const ClusterSpec a = Dense();
  const ClusterSpec b = ClusterSpec::FromJobs({{"chief", {}},
                                               {"ps", {{0, At("P0:1")}}},
                                               {"worker", {{1, At("w1:1")}, {0, At("w0:1")}}}})
                            .value();
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.ToJson(), R"({"ps":["p0:1"],"worker":["w0:1","w1:1"]})");
  EXPECT_EQ(b.ToJson(), a.ToJson());
  EXPECT_EQ(a.Fingerprint().value(),
            Sha256Hex(R"({"ps":["p0:1"],"worker":["w0:1","w1:1"]})").value());
  EXPECT_EQ(Sparse().ToJson(), R"({"worker":{"1":"w1:1","4":"w4:1"}})");
  EXPECT_EQ(ClusterSpec().ToJson(), "{}");
  for (const ClusterSpec& spec : {Dense(), Sparse(), ClusterSpec()}) {
    EXPECT_EQ(ClusterSpec::FromJson(spec.ToJson()).value(), spec);
  }
  EXPECT_NE(a, Sparse());
  EXPECT_NE(a.Fingerprint().value(), Sparse().Fingerprint().value());
}

TEST(ClusterSpecTest, DifferencesAreNamed) {
  const ClusterSpec a = Dense();
  EXPECT_EQ(a.Difference(a), "");
  const auto with = [](std::vector<std::string> workers) {
    return ClusterSpec::Create({{"ps", {"p0:1"}}, {"worker", std::move(workers)}}).value();
  };
  EXPECT_EQ(a.Difference(with({"w0:1", "x:1"})), "/job:worker/task:1 is w1:1 here and x:1 there");
  EXPECT_EQ(a.Difference(with({"w0:1"})), "/job:worker/task:1 is w1:1 here and not there");
  EXPECT_EQ(a.Difference(with({"w0:1", "w1:1", "x:1"})),
            "/job:worker/task:2 is x:1 there and not here");
}

TEST(ClusterSpecTest, Chief) {
  EXPECT_EQ(Dense().chief(), (TaskId{"worker", 0}));
  EXPECT_EQ(ClusterSpec::Create({{"chief", {"a:1"}}, {"worker", {"b:1"}}})->chief(),
            (TaskId{"chief", 0}));
  EXPECT_EQ(ClusterSpec::Create({{"master", {"a:1"}}, {"worker", {"b:1"}}})->chief(),
            (TaskId{"master", 0}));
  EXPECT_EQ(ClusterSpec::Create({{"ps", {"a:1"}}})->chief(), std::nullopt);
  EXPECT_EQ(Sparse().chief(), std::nullopt);
}

TEST(ClusterSpecTest, JsonByHand) {
  EXPECT_EQ(ClusterSpec::FromJson(R"({"worker": {"0": "a:1", "1": "b:1"}})").value(),
            ClusterSpec::Create({{"worker", {"a:1", "b:1"}}}).value());
  EXPECT_EQ(Message(ClusterSpec::FromJson(R"({"worker": {"00": "a:1"}})")),
            "cluster: line 1, column 13 (byte 12): /job:worker: found the key '00', a task index "
            "of 0 to 65535 is expected");
  EXPECT_EQ(Message(ClusterSpec::FromJson("[]")),
            "cluster: line 1, column 1 (byte 0): the cluster: found a list, an object {\"job\": "
            "[\"host:port\", ...]} is expected");
}

}  // namespace
}  // namespace lockstep::cluster
