#include "lockstep/cli/cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/cluster/resolver/resolve.h"

namespace lockstep::cli {
namespace {

using cluster::ClusterSpec;
using cluster::Resolution;

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;

// The hosts of --hosts or --host-file.
Result<cluster::HostSlotsList> ReadHosts(const ClusterSourceFlags& flags) {
  cluster::HostSlotsList list;
  if (flags.hosts && flags.host_file) {
    return InvalidArgument("--hosts and --host-file both name the hosts; give one");
  }
  if (flags.hosts) {
    Result<std::vector<cluster::HostSlots>> hosts = cluster::ParseHosts(*flags.hosts);
    if (!hosts.ok()) {
      return hosts.status().With("--hosts");
    }
    list = {*hosts, "--hosts"};
  }
  if (flags.host_file) {
    LS_ASSIGN_OR_RETURN(const std::string text, ReadFile(*flags.host_file, kMaxFileBytes));
    LS_ASSIGN_OR_RETURN(list.hosts, cluster::ParseHostFile(text, *flags.host_file));
    list.source = *flags.host_file;
  }
  return list;
}

Result<Resolution> Resolve(const ClusterSourceFlags& flags) {
  cluster::ClusterFlags source;
  source.spec = flags.spec;
  source.file_path = flags.cluster_file;
  source.job = flags.job;
  source.task = flags.task;
  source.ranks.ps_tasks = flags.ps;
  source.ranks.port_base_given = flags.port_base.has_value();
  source.ranks.port_base = flags.port_base.value_or(source.ranks.port_base);
  LS_ASSIGN_OR_RETURN(source.hosts, ReadHosts(flags));
  // Both are an error, whatever the file is.
  if (flags.cluster_file && !flags.spec) {
    LS_ASSIGN_OR_RETURN(source.file_text, ReadFile(*flags.cluster_file, kMaxFileBytes));
  }
  return cluster::ResolveCluster(cluster::CollectVariables(environ), source);
}

std::string RoleOf(const Resolution& resolution, const cluster::TaskId& id) {
  std::string role;
  if (resolution.cluster.chief() == id) {
    role += "  chief";
  }
  if (resolution.task == id) {
    role += "  this process";
  }
  return role;
}

void PrintText(const Resolution& resolution, const std::string& fingerprint) {
  if (resolution.family == "none") {
    fmt::print("no cluster: this process is alone\n");
  } else {
    fmt::print("cluster from {}: {} task{}\n", EscapeControls(resolution.family),
               resolution.cluster.size(), resolution.cluster.size() == 1 ? "" : "s");
  }
  size_t width = 0;
  for (const ClusterSpec::Task& task : resolution.cluster.tasks()) {
    width = std::max(width, task.id.ToString().size());
  }
  for (const ClusterSpec::Task& task : resolution.cluster.tasks()) {
    fmt::print("  {:<{}}  {}{}\n", task.id.ToString(), width, task.address.ToString(),
               RoleOf(resolution, task.id));
  }
  if (resolution.is_evaluator()) {
    fmt::print("  this process is the evaluator, which is no member of training\n");
  }
  if (!resolution.cluster.empty()) {
    fmt::print("fingerprint {}\n", fingerprint);
  }
  if (!resolution.facts.empty()) {
    fmt::print("where it comes from\n");
  }
  for (const cluster::Fact& fact : resolution.facts) {
    fmt::print("  {} = {}  ({})\n", EscapeControls(fact.name), EscapeControls(fact.value),
               EscapeControls(fact.source));
  }
  for (const std::string& note : resolution.notes) {
    fmt::print("note: {}\n", EscapeControls(note));
  }
}

void PrintJson(const Resolution& resolution, const std::string& fingerprint) {
  using Json = nlohmann::ordered_json;
  Json root;
  root["source"] = resolution.family;
  root["cluster"] = Json::parse(resolution.cluster.ToJson());
  root["fingerprint"] = fingerprint;
  root["task"] = nullptr;
  if (resolution.task) {
    root["task"] = {{"type", resolution.task->job}, {"index", resolution.task->index}};
  }
  root["chief"] = nullptr;
  if (const auto chief = resolution.cluster.chief(); chief) {
    root["chief"] = {{"type", chief->job}, {"index", chief->index}};
  }
  root["facts"] = Json::array();
  for (const cluster::Fact& fact : resolution.facts) {
    root["facts"].push_back({{"name", fact.name}, {"value", fact.value}, {"source", fact.source}});
  }
  root["notes"] = resolution.notes;
  // Values of the environment need not be UTF-8.
  fmt::print("{}\n", root.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Outcome ResolveClusterHere(const ClusterSourceFlags& flags, Resolution& resolution) {
  Result<Resolution> resolved = Resolve(flags);
  if (!resolved.ok()) {
    return Fail(ExitCode::kUsage, resolved.status());
  }
  resolution = std::move(resolved).value();
  return Done();
}

Outcome ShowCluster(const ClusterSourceFlags& flags, bool json) {
  Resolution resolution;
  Outcome outcome = ResolveClusterHere(flags, resolution);
  if (!outcome.status.ok()) {
    return outcome;
  }
  const Result<std::string> fingerprint = resolution.cluster.Fingerprint();
  if (!fingerprint.ok()) {
    return Fail(ExitCode::kOther, fingerprint.status());
  }
  (json ? PrintJson : PrintText)(resolution, *fingerprint);
  return Done();
}

}  // namespace lockstep::cli
