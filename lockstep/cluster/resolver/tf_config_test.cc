#include "lockstep/cluster/resolver/tf_config.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::cluster {
namespace {

std::string Message(std::string_view text) {
  const Result<Resolution> resolution = ResolveTfConfig(text);
  if (resolution.ok()) {
    return "ok";
  }
  EXPECT_EQ(resolution.status().code(), StatusCode::kInvalidArgument);
  return resolution.status().message();
}

Resolution Resolved(std::string_view text) {
  const Result<Resolution> resolution = ResolveTfConfig(text);
  EXPECT_TRUE(resolution.ok()) << resolution.status().ToString();
  return resolution.ok() ? *resolution : Resolution();
}

std::string NotesOf(const Resolution& resolution) {
  std::string text;
  for (const std::string& note : resolution.notes) {
    text += note + "\n";
  }
  return text;
}

TEST(TfConfigTest, Kubeflow) {
  const Resolution resolution = Resolved(
      R"({"cluster":{"ps":["mnist-ps-0.kubeflow.svc:2222","mnist-ps-1.kubeflow.svc:2222"],)"
      R"("worker":["mnist-worker-0.kubeflow.svc:2222","mnist-worker-1.kubeflow.svc:2222"]},)"
      R"("task":{"type":"worker","index":1},"environment":"cloud"})");
  EXPECT_EQ(resolution.family, "TF_CONFIG");
  EXPECT_EQ(resolution.cluster.size(), 4);
  EXPECT_EQ(resolution.task, (TaskId{"worker", 1}));
  EXPECT_EQ(resolution.cluster.task_address({"ps", 1})->ToString(), "mnist-ps-1.kubeflow.svc:2222");
  EXPECT_FALSE(resolution.is_chief());
  EXPECT_FALSE(resolution.is_evaluator());
  EXPECT_EQ(NotesOf(resolution), "");
  ASSERT_EQ(resolution.facts.size(), 4U);
  EXPECT_EQ(resolution.facts[0].name, "/job:ps");
  EXPECT_EQ(resolution.facts[0].source, "TF_CONFIG, line 1, column 18");
  EXPECT_EQ(resolution.facts[3].name, "environment");
}

TEST(TfConfigTest, KubeflowElasticWorkers) {
  const Resolution resolution = Resolved(
      R"({"sparseCluster":{"worker":{"3":"j-worker-3.ns.svc:2222"},"ps":["j-ps-0.ns.svc:2222"]},)"
      R"("task":{"type":"worker","index":3}})");
  EXPECT_EQ(resolution.task, (TaskId{"worker", 3}));
  EXPECT_FALSE(resolution.cluster.dense("worker").value());
  // What the operator gives a chief in that mode: nothing that a chief could use.
  EXPECT_EQ(Message(R"({"sparseCluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}})"),
            "ok");
  EXPECT_TRUE(Resolved(R"({"sparseCluster":{"worker":{},"ps":null}})").cluster.empty());
}

TEST(TfConfigTest, SageMakerVertexAndBatchAi) {
  EXPECT_TRUE(Resolved(R"({"cluster": {"master": ["algo-1:2222"], "worker": ["algo-2:2222"],)"
                       R"( "ps": ["algo-1:2223", "algo-2:2223"]}, "environment": "cloud",)"
                       R"( "task": {"index": 0, "type": "master"}})")
                  .is_chief());
  const Resolution vertex =
      Resolved(R"({"cluster":{"chief":["cmle-training-workerpool0-0:2222"],)"
               R"("worker":["cmle-training-workerpool1-0:2222"]},"environment":"cloud",)"
               R"("task":{"type":"worker","index":0,"trial":"1","cloud":"c"},)"
               R"("job":"{\"python_module\":\"trainer.task\"}"})");
  EXPECT_EQ(vertex.task, (TaskId{"worker", 0}));
  EXPECT_EQ(NotesOf(vertex), "TF_CONFIG has the key 'job', which is ignored.\n");
  const Resolution batch =
      Resolved(R"({"cluster":{"ps":["10.0.0.4:2222"],"worker":["10.0.0.4:2223","10.0.0.5:2222",)"
               R"("10.0.0.6:2222"]},"task":{"type":"ps","index":0},"environment":"cloud"})");
  EXPECT_EQ(batch.task, (TaskId{"ps", 0}));
  EXPECT_EQ(batch.cluster.chief(), (TaskId{"worker", 0}));
}

TEST(TfConfigTest, AnEvaluatorIsNoMember) {
  // Both ways that are found: listed in the cluster, and not.
  const Resolution listed =
      Resolved(R"({"cluster":{"worker":["node1:22739","node2:19226"],"evaluator":["node3:11265"]},)"
               R"("task":{"type":"evaluator","index":0}})");
  EXPECT_TRUE(listed.is_evaluator());
  EXPECT_FALSE(listed.cluster.has_job("evaluator"));
  EXPECT_EQ(listed.cluster.size(), 2);
  EXPECT_NE(NotesOf(listed).find("not a member of training"), std::string::npos);
  const Resolution apart =
      Resolved(R"({"cluster":{"chief":["host0:2222"],"ps":["host1:2222","host2:2222"],)"
               R"("worker":["host3:2222"]},"task":{"type":"evaluator","index":0}})");
  EXPECT_TRUE(apart.is_evaluator());
  EXPECT_EQ(apart.cluster.size(), 4);
  EXPECT_TRUE(Resolved(R"({"task":{"type":"evaluator","index":0}})").is_evaluator());
  EXPECT_NE(Message(R"({"cluster":{"worker":["a:1"]},"task":{"type":"evaluator","index":1}})")
                .find("byte 65): task.index: there is no /job:evaluator/task:1"),
            std::string::npos);
}

TEST(TfConfigTest, WithoutClusterOrTask) {
  EXPECT_TRUE(Resolved("{}").cluster.empty());
  EXPECT_EQ(Resolved("{}").task, std::nullopt);
  const Resolution alone = Resolved(R"({"task":{"type":"worker","index":0}})");
  EXPECT_EQ(alone.task, std::nullopt);
  EXPECT_NE(NotesOf(alone).find("this process is alone"), std::string::npos);
  EXPECT_EQ(Resolved(R"({"cluster":{"worker":["a:1"]}})").task, (TaskId{"worker", 0}));
  const Resolution client = Resolved(R"({"cluster":{"worker":["a:1","b:1"]}})");
  EXPECT_EQ(client.task, std::nullopt);
  EXPECT_NE(NotesOf(client).find("a client"), std::string::npos);
  EXPECT_EQ(Message(R"({"task":{"type":"ps","index":0}})"),
            "TF_CONFIG: line 1, column 9 (byte 8): the task is /job:ps/task:0, but no cluster is "
            "given");
}

TEST(TfConfigTest, FaultsAndTheirPlaces) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "line 1, column 1 (byte 0): found a list, an object"},
      {"{'cluster': {'worker': ['a:1']}}",
       "column 2 (byte 1): expected a key in double quotes, "
       "found a single quote; JSON strings are in double "
       "quotes"},
      {R"({"cluster": {"worker_hosts": ["a:1"]}})",
       "column 14 (byte 13): unknown job 'worker_hosts', did you mean 'worker'?: allowed are "
       "chief, master, worker, ps, evaluator"},
      {R"({"cluster": {"ps_hosts": ["a:1"]}})", "unknown job 'ps_hosts', did you mean 'ps'?"},
      {R"({"cluster": {"Worker": ["a:1"]}})", "unknown job 'Worker', did you mean 'worker'?"},
      {R"({"cluster": {"workers": ["a:1"]}})", "unknown job 'workers', did you mean 'worker'?"},
      {R"({"cluster": {"cheif": ["a:1"]}})", "unknown job 'cheif', did you mean 'chief'?"},
      {R"({"clusters": {}})",
       "column 2 (byte 1): unknown key 'clusters' in TF_CONFIG, did you "
       "mean 'cluster'?"},
      {R"({"worker": ["a:1"], "task": {"type": "worker", "index": 0}})",
       "column 2 (byte 1): the job 'worker' stands outside of \"cluster\""},
      {R"({"cluster": {}, "cluster": {}})", "column 17 (byte 16): the key 'cluster' is repeated"},
      {R"({"cluster": {"worker": ["a:1"], "worker": ["b:1"]}})", "the key 'worker' is repeated"},
      {R"({"cluster": {"worker": "a:1,b:1"}})",
       "/job:worker: found the string 'a:1,b:1', a list of addresses"},
      {R"({"cluster": {"worker": ["a:1,b:1"]}})",
       "/job:worker/task:0: address 'a:1,b:1': it has a "
       "comma"},
      {R"({"cluster": {"worker": [1]}})", "/job:worker/task:0: found the number 1, an address"},
      {R"({"cluster": {"worker": [["a:1"]]}})", "/job:worker/task:0: found a list, an address"},
      {R"({"cluster": {"worker": ["http://a:1"]}})", "leave 'http://' out"},
      {R"({"cluster": {"worker": ["a:1", "b"]}})",
       "column 32 (byte 31): /job:worker/task:1: address 'b': the port is missing"},
      {R"({"cluster": {"worker": ["a:0"]}})", "the port 0 is not allowed"},
      {R"({"cluster": {"worker": ["a:1", "a:1"]}})",
       "column 32 (byte 31): /job:worker/task:1 has the address a:1, which /job:worker/task:0 has "
       "already"},
      {R"({"cluster": {"chief": ["a:1"], "worker": ["A:1"]}})",
       "/job:worker/task:0 has the address a:1, which /job:chief/task:0 has already"},
      {R"({"cluster": {"worker": ["a:1"], "evaluator": ["a:1"]}})",
       "/job:evaluator/task:0 has the address a:1"},
      {R"({"cluster": {"worker": ["0.0.0.0:1"]}})", "names no host"},
      {R"({"cluster": {"chief": ["a:1", "b:1"]}})",
       "/job:chief has 2 tasks, there can be one only"},
      {R"({"cluster": {"chief": ["a:1"], "master": ["b:1"]}})", "two words for the same role"},
      {R"({"cluster": "a:1"})", "found the string 'a:1', an object"},
      {R"({"cluster": {"worker": ["a:1"]}, "sparseCluster": {}})", "both \"cluster\" and"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
       "column 70 (byte 69): task.index: there is no /job:worker/task:1 in the cluster: "
       "/job:worker has 1 task, 0 to 0"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
       "column 51 (byte 50): task.type: there is no job 'ps' in the cluster"},
      {R"({"task": {"type": "worker", "index": "0"}})",
       "task.index: found the string '0', a whole number of 0 to 65535 is expected (without "
       "quotes)"},
      {R"({"task": {"type": "worker", "index": -1}})", "task.index: found the number -1"},
      {R"({"task": {"type": "worker", "index": 0.0}})", "task.index: found the number 0.0"},
      {R"({"task": {"type": "worker", "index": null}})", "task.index: found null"},
      {R"({"task": {"type": "worker", "index": 99999999999999999999}})", "task.index: found"},
      {R"({"task": {"type": 0, "index": 0}})", "task.type: found the number 0"},
      {R"({"task": {"type": "trainer", "index": 0}})", "unknown job 'trainer'"},
      {R"({"task": {"type": "worker"}})", "column 10 (byte 9): task: the key 'index' is missing"},
      {R"({"task": {"index": 0}})", "task: the key 'type' is missing"},
      {R"({"task": {"type": "worker", "id": 0}})", "unknown key 'id' in task"},
      {R"({"task": {"type": "worker", "idx": 0}})", "unknown key 'idx' in task"},
      {R"({"task": ["worker", 0]})", "task: found a list"},
      {R"({"rpc_layer": "grpc+verbs"})", "rpc_layer: found 'grpc+verbs', allowed is 'grpc'"},
      {R"({"rpc_layer": 1})", "rpc_layer: found the number 1, a string is expected"},
      {R"({"environment": true})", "environment: found a boolean, a string is expected"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string message = Message(text);
    EXPECT_EQ(message.substr(0, 11), "TF_CONFIG: ") << text;
    EXPECT_NE(message.find(expected), std::string::npos) << text << ": " << message;
  }
}

TEST(TfConfigTest, LinesAreCounted) {
  EXPECT_EQ(Message("{\n  \"cluster\": {\n    \"worker\": [\n      \"a\"\n    ]}}"),
            "TF_CONFIG: line 4, column 7 (byte 39): /job:worker/task:0: address 'a': the port is "
            "missing; expected host:port, where host is a name, an IPv4 address or an IPv6 address "
            "in brackets");
}

TEST(TfConfigTest, WhatLaunchWrites) {
  const ClusterSpec cluster =
      ClusterSpec::Create({{"ps", {"[::1]:1"}}, {"worker", {"127.0.0.1:2", "a:3"}}}).value();
  const Resolution resolution = Resolved(TfConfigText(cluster, {"worker", 1}));
  EXPECT_EQ(resolution.cluster, cluster);
  EXPECT_EQ(resolution.task, (TaskId{"worker", 1}));
}

}  // namespace
}  // namespace lockstep::cluster
