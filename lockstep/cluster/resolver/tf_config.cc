#include "lockstep/cluster/resolver/tf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/internal/read_cluster.h"

namespace lockstep::cluster {
namespace {

using internal::Document;
using internal::FaultAt;
using internal::JobNames;
using internal::Node;

const Document kDocument = {"TF_CONFIG", false};

constexpr std::array<std::string_view, 5> kUsedKeys = {"cluster", "sparseCluster", "task",
                                                       "rpc_layer", "environment"};
// Of TensorFlow's Estimator and of Vertex AI.
constexpr std::array<std::string_view, 5> kIgnoredKeys = {"job", "model_dir", "service",
                                                          "session_master", "eval_session_master"};
constexpr std::array<std::string_view, 2> kIgnoredTaskKeys = {"trial", "cloud"};

std::string PlaceOf(const Node& node) {
  return fmt::format("TF_CONFIG, line {}, column {}", node.at.line, node.at.column);
}

bool Has(const ClusterSpec::Jobs& jobs, const std::string& job) {
  const auto it = jobs.find(job);
  return it != jobs.end() && !it->second.empty();
}

Status CheckTopKeys(const Node& root) {
  for (const internal::Member& member : root.members) {
    for (const char* role : {"chief", "master", "worker", "ps", "evaluator"}) {
      if (member.key == role) {
        return FaultAt(kDocument, member.at,
                       fmt::format("the job '{}' stands outside of \"cluster\"", role));
      }
    }
  }
  std::vector<std::string_view> known(kUsedKeys.begin(), kUsedKeys.end());
  known.insert(known.end(), kIgnoredKeys.begin(), kIgnoredKeys.end());
  return internal::CheckKeys(root, "TF_CONFIG", kDocument, known);
}

// The string under the key, or null.
Result<const Node*> StringKey(const Node& root, std::string_view key) {
  const Node* node = root.Find(key);
  if (node != nullptr && node->kind != Node::Kind::kString) {
    return FaultAt(kDocument, node->at,
                   fmt::format("{}: found {}, a string is expected", key, internal::Found(*node)));
  }
  return node;
}

// One chief, one evaluator, and master is the older word for chief.
Status CheckRoles(const ClusterSpec::Jobs& jobs, const Node& cluster) {
  for (const std::string role : {"chief", "master", "evaluator"}) {
    const auto it = jobs.find(role);
    if (it != jobs.end() && it->second.size() > 1) {
      return FaultAt(
          kDocument, cluster.Find(role)->at,
          fmt::format("/job:{} has {} tasks, there can be one only", role, it->second.size()));
    }
  }
  if (Has(jobs, "chief") && Has(jobs, "master")) {
    return FaultAt(kDocument, cluster.Find("master")->at,
                   "the jobs 'chief' and 'master' are two words for the same role; give one");
  }
  return OkStatus();
}

// The jobs under "cluster" or "sparseCluster"; none if neither is there.
Result<ClusterSpec::Jobs> ReadClusterKey(const Node& root, const Node** where) {
  const Node* cluster = root.Find("cluster");
  const Node* sparse = root.Find("sparseCluster");
  if (cluster != nullptr && sparse != nullptr) {
    return FaultAt(kDocument, sparse->at, "both \"cluster\" and \"sparseCluster\" are given");
  }
  const Node* node = cluster != nullptr ? cluster : sparse;
  if (node == nullptr || node->kind == Node::Kind::kNull) {
    return ClusterSpec::Jobs();
  }
  *where = node;
  LS_ASSIGN_OR_RETURN(ClusterSpec::Jobs jobs,
                      internal::ReadJobs(*node, kDocument, JobNames::kRoles));
  LS_TRY(CheckRoles(jobs, *node));
  return jobs;
}

// Is the task one that this cluster has? `evaluators` are those that the cluster lists.
Status CheckTask(const TaskId& task, const Node& node, const ClusterSpec& cluster,
                 size_t evaluators) {
  const Node& type = *node.Find("type");
  const Node& index = *node.Find("index");
  if (task.job == "evaluator") {
    const size_t count = std::max<size_t>(evaluators, 1);
    if (static_cast<size_t>(task.index) >= count) {
      return FaultAt(
          kDocument, index.at,
          fmt::format("task.index: there is no {}: there is one evaluator", task.ToString()));
    }
    return OkStatus();
  }
  if (cluster.empty()) {
    if (task.job == "ps" || task.index != 0) {
      return FaultAt(kDocument, node.at,
                     fmt::format("the task is {}, but no cluster is given", task.ToString()));
    }
    return OkStatus();
  }
  const Result<net::Address> address = cluster.task_address(task);
  if (!address.ok()) {
    const bool job = cluster.has_job(task.job);
    return FaultAt(
        kDocument, job ? index.at : type.at,
        fmt::format("{}: {}", job ? "task.index" : "task.type", address.status().message()));
  }
  return OkStatus();
}

Status ReadRest(const Node& root, Resolution& resolution) {
  LS_ASSIGN_OR_RETURN(const Node* rpc, StringKey(root, "rpc_layer"));
  if (rpc != nullptr) {
    if (!rpc->text.empty() && rpc->text != "grpc") {
      return FaultAt(kDocument, rpc->at,
                     fmt::format("rpc_layer: found {}, allowed is 'grpc' (how tensors travel is "
                                 "chosen by the tasks)",
                                 Quoted(rpc->text)));
    }
    resolution.facts.push_back({"rpc_layer", rpc->text, PlaceOf(*rpc)});
  }
  LS_ASSIGN_OR_RETURN(const Node* environment, StringKey(root, "environment"));
  if (environment != nullptr) {
    resolution.facts.push_back({"environment", environment->text, PlaceOf(*environment)});
  }
  for (const std::string_view key : kIgnoredKeys) {
    if (root.Find(key) != nullptr) {
      resolution.notes.push_back(fmt::format("TF_CONFIG has the key '{}', which is ignored.", key));
    }
  }
  return OkStatus();
}

Status ReadTaskKey(const Node& root, size_t evaluators, Resolution& resolution) {
  const Node* node = root.Find("task");
  if (node == nullptr) {
    if (resolution.cluster.size() == 1) {
      resolution.task = resolution.cluster.tasks()[0].id;
      resolution.facts.push_back(
          {"task", resolution.task->ToString(), "the only task of TF_CONFIG's cluster"});
    } else if (!resolution.cluster.empty()) {
      resolution.notes.push_back(
          "TF_CONFIG names no task: this process is a client of the cluster, not a member.");
    }
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const TaskId task,
                      internal::ReadTask(*node, kDocument, JobNames::kRoles, kIgnoredTaskKeys));
  LS_TRY(CheckTask(task, *node, resolution.cluster, evaluators));
  resolution.facts.push_back({"task", task.ToString(), PlaceOf(*node)});
  if (resolution.cluster.empty() && task.job != "evaluator") {
    resolution.notes.push_back("TF_CONFIG names a task but no cluster: this process is alone.");
    return OkStatus();
  }
  resolution.task = task;
  return OkStatus();
}

}  // namespace

Result<Resolution> ResolveTfConfig(std::string_view text) {
  LS_ASSIGN_OR_RETURN(const Node root, internal::ParseJson(text, kDocument));
  if (root.kind != Node::Kind::kObject) {
    return FaultAt(
        kDocument, root.at,
        fmt::format("found {}, an object {{\"cluster\": ..., \"task\": ...}} is expected",
                    internal::Found(root)));
  }
  LS_TRY(CheckTopKeys(root));
  Resolution resolution;
  resolution.family = "TF_CONFIG";
  const Node* where = nullptr;
  LS_ASSIGN_OR_RETURN(ClusterSpec::Jobs jobs, ReadClusterKey(root, &where));
  const auto evaluator = jobs.extract("evaluator");
  const size_t evaluators = evaluator.empty() ? 0 : evaluator.mapped().size();
  Result<ClusterSpec> cluster = ClusterSpec::FromJobs(std::move(jobs));
  if (!cluster.ok()) {
    return FaultAt(kDocument, where->at, cluster.status().message());
  }
  resolution.cluster = *cluster;
  for (const std::string& job : resolution.cluster.jobs()) {
    resolution.facts.push_back({fmt::format("/job:{}", job),
                                Counted(*resolution.cluster.num_tasks(job), "task"),
                                PlaceOf(*where->Find(job))});
  }
  if (evaluators > 0) {
    resolution.facts.push_back({"/job:evaluator", evaluator.mapped().begin()->second.ToString(),
                                PlaceOf(*where->Find("evaluator"))});
    resolution.notes.push_back(
        "TF_CONFIG's cluster lists an evaluator; it is not a member of training.");
  }
  LS_TRY(ReadTaskKey(root, evaluators, resolution));
  LS_TRY(ReadRest(root, resolution));
  return resolution;
}

std::string TfConfigText(const ClusterSpec& cluster, const TaskId& task) {
  return fmt::format(R"({{"cluster":{},"task":{{"type":"{}","index":{}}}}})", cluster.ToJson(),
                     task.job, task.index);
}

}  // namespace lockstep::cluster
