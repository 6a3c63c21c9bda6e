#include "lockstep/cluster/resolver/description.h"

#include <fmt/format.h>

#include <array>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/internal/read_cluster.h"
#include "lockstep/cluster/internal/toml_document.h"

namespace lockstep::cluster {
namespace {

using internal::Document;
using internal::Node;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

void AddJobFacts(const std::string& source, Resolution& resolution) {
  for (const std::string& job : resolution.cluster.jobs()) {
    resolution.facts.push_back(
        {fmt::format("/job:{}", job), Counted(*resolution.cluster.num_tasks(job), "task"), source});
  }
}

// Takes the evaluator out of the jobs.
void SplitEvaluator(ClusterSpec::Jobs& jobs, const std::string& source, Resolution& resolution) {
  if (const auto evaluator = jobs.extract("evaluator");
      !evaluator.empty() && !evaluator.mapped().empty()) {
    resolution.notes.push_back(
        fmt::format("{} lists an evaluator; it is not a member of training.", source));
  }
}

Status ReadFileTask(const Node& root, const Document& document, Resolution& resolution) {
  const Node* node = root.Find("task");
  if (node == nullptr) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const TaskId task,
                      internal::ReadTask(*node, document, internal::JobNames::kAny, {}));
  if (task.job != "evaluator") {
    const Result<net::Address> address = resolution.cluster.task_address(task);
    if (!address.ok()) {
      return internal::FaultAt(document, node->at, address.status().message());
    }
  }
  resolution.task = task;
  resolution.facts.push_back(
      {"task", task.ToString(), fmt::format("{}:{}", document.name, node->at.line)});
  return OkStatus();
}

}  // namespace

Result<Resolution> ResolveFile(std::string_view text, const std::string& path) {
  const Document document = {path, true};
  LS_ASSIGN_OR_RETURN(const Node root, path.ends_with(".toml")
                                           ? internal::ParseToml(text, document)
                                           : internal::ParseJson(text, document));
  const Node* inner = root.Find("cluster");
  const bool wrapped = inner != nullptr && inner->kind == Node::Kind::kObject;
  if (wrapped) {
    constexpr std::array<std::string_view, 2> kKeys = {"cluster", "task"};
    LS_TRY(internal::CheckKeys(root, "the file", document, kKeys));
  }
  const Node& node = wrapped ? *inner : root;
  LS_ASSIGN_OR_RETURN(ClusterSpec::Jobs jobs,
                      internal::ReadJobs(node, document, internal::JobNames::kAny));
  Resolution resolution;
  resolution.family = path;
  SplitEvaluator(jobs, path, resolution);
  const Result<ClusterSpec> cluster = ClusterSpec::FromJobs(std::move(jobs));
  if (!cluster.ok()) {
    return internal::FaultAt(document, node.at, cluster.status().message());
  }
  if (cluster->empty()) {
    return internal::FaultAt(document, node.at, "the cluster has no tasks");
  }
  resolution.cluster = *cluster;
  AddJobFacts(path, resolution);
  if (wrapped) {
    LS_TRY(ReadFileTask(root, document, resolution));
  }
  return resolution;
}

Result<Resolution> ResolveSpecText(std::string_view text) {
  constexpr std::string_view kForm = "expected JOB|HOST:PORT;HOST:PORT,JOB|HOST:PORT";
  if (text.size() > internal::kMaxDocumentBytes) {
    return InvalidArgument(fmt::format("--spec: {} bytes are too many", text.size()));
  }
  ClusterSpec::Jobs jobs;
  for (const std::string_view part : Split(text, ',')) {
    const size_t bar = part.find('|');
    const std::string_view name = part.substr(0, bar);
    if (bar == std::string_view::npos || name.empty()) {
      return InvalidArgument(
          fmt::format("--spec {}: {} is no job; {}", Quoted(text), Quoted(part), kForm));
    }
    const auto [it, is_new] = jobs.emplace(name, ClusterSpec::SparseJob());
    if (!is_new) {
      return InvalidArgument(
          fmt::format("--spec {}: the job {} is given twice", Quoted(text), Quoted(name)));
    }
    for (const std::string_view item : Split(part.substr(bar + 1), ';')) {
      Result<net::Address> address = net::Address::Parse(item);
      if (!address.ok()) {
        return address.status().With(fmt::format("--spec, job {}", Quoted(name)));
      }
      it->second.emplace(static_cast<int>(it->second.size()), *address);
    }
  }
  Resolution resolution;
  resolution.family = "--spec";
  SplitEvaluator(jobs, "--spec", resolution);
  Result<ClusterSpec> cluster = ClusterSpec::FromJobs(std::move(jobs));
  if (!cluster.ok()) {
    return cluster.status().With("--spec");
  }
  resolution.cluster = *cluster;
  AddJobFacts("--spec", resolution);
  return resolution;
}

}  // namespace lockstep::cluster
