#include "lockstep/cluster/resolver/slurm.h"

#include <fmt/format.h>

#include <numeric>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/rank_layout.h"
#include "lockstep/cluster/resolver/host_list.h"

namespace lockstep::cluster {
namespace {

using internal::FindVariable;

struct Named {
  std::string_view name;
  const std::string* value = nullptr;
};

// The variable of the step, or the older one that srun sets to the same.
Result<Named> StepVariable(const Variables& variables, std::string_view name,
                           std::string_view older) {
  for (const std::string_view candidate : {name, older}) {
    if (const std::string* value = FindVariable(variables, candidate); value != nullptr) {
      return Named{candidate, value};
    }
  }
  return FailedPrecondition(
      fmt::format("a Slurm step without {}: it is not known which tasks there are", name));
}

// Ranks of a round on one node.
Result<int> PlaneOf(const Variables& variables) {
  const std::string* text = FindVariable(variables, "SLURM_DISTRIBUTION");
  if (text == nullptr) {
    return internal::kBlock;
  }
  // "block:cyclic,NoPack": how ranks go to nodes comes first.
  const std::string_view method = std::string_view(*text).substr(0, text->find_first_of(":,"));
  if (method == "block" || method == "*" || method == "unknown") {
    return internal::kBlock;
  }
  if (method == "cyclic") {
    return 1;
  }
  if (method == "plane") {
    const Result<int> size = internal::IntVariable(variables, "SLURM_DIST_PLANESIZE", kMaxTasks);
    if (!size.ok() || *size == 0) {
      return InvalidArgument(fmt::format(
          "SLURM_DISTRIBUTION is {}, and {}", Quoted(*text),
          size.ok() ? std::string("SLURM_DIST_PLANESIZE is 0") : size.status().message()));
    }
    return *size;
  }
  return InvalidArgument(fmt::format(
      "SLURM_DISTRIBUTION is {}: it is not known which task runs where; allowed are block, cyclic "
      "and plane",
      Quoted(*text)));
}

// Does the step place this rank where Slurm says that it is?
Status CheckPlace(const Variables& variables, const internal::RankPlace& place, int rank) {
  const Result<int> node = internal::IntVariable(variables, "SLURM_NODEID", kMaxTasks);
  const Result<int> local = internal::IntVariable(variables, "SLURM_LOCALID", kMaxTasks);
  // Not set is no contradiction.
  for (const Result<int>* number : {&node, &local}) {
    if (!number->ok() && number->status().code() != StatusCode::kNotFound) {
      return number->status();
    }
  }
  if ((node.ok() && *node != place.node) || (local.ok() && *local != place.local)) {
    return InvalidArgument(fmt::format(
        "by the tasks of each node, rank {} is task {} of node {}; SLURM_LOCALID is {} and "
        "SLURM_NODEID is {}",
        rank, place.local, place.node, local.ok() ? std::to_string(*local) : "not set",
        node.ok() ? std::to_string(*node) : "not set"));
  }
  return OkStatus();
}

}  // namespace

bool InSlurmJob(const Variables& variables) {
  return FindVariable(variables, "SLURM_JOB_ID") != nullptr ||
         FindVariable(variables, "SLURM_JOBID") != nullptr || InSlurmStep(variables);
}

bool InSlurmStep(const Variables& variables) {
  const auto set = [&](std::string_view name) { return FindVariable(variables, name) != nullptr; };
  return set("SLURM_PROCID") &&
         (set("SLURM_STEP_ID") || set("SLURM_STEPID") || set("SLURM_STEP_NODELIST"));
}

Result<Resolution> ResolveSlurm(const Variables& variables, const RankOptions& options) {
  LS_ASSIGN_OR_RETURN(const int rank,
                      internal::IntVariable(variables, "SLURM_PROCID", kMaxTasks - 1));
  LS_ASSIGN_OR_RETURN(const Named nodes,
                      StepVariable(variables, "SLURM_STEP_NODELIST", "SLURM_NODELIST"));
  LS_ASSIGN_OR_RETURN(const Named counts,
                      StepVariable(variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
  LS_ASSIGN_OR_RETURN(const Named size,
                      StepVariable(variables, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"));
  LS_ASSIGN_OR_RETURN(const int tasks, internal::IntVariable(variables, size.name, kMaxTasks));
  const Result<std::vector<std::string>> hosts = ExpandHostList(*nodes.value);
  if (!hosts.ok()) {
    return hosts.status().With(std::string(nodes.name));
  }
  const Result<std::vector<int>> per_node = ExpandCounts(*counts.value);
  if (!per_node.ok()) {
    return per_node.status().With(std::string(counts.name));
  }
  if (per_node->size() != hosts->size()) {
    return InvalidArgument(fmt::format("{} names {} nodes, {} has counts for {}", nodes.name,
                                       hosts->size(), counts.name, per_node->size()));
  }
  const int64_t sum = std::accumulate(per_node->begin(), per_node->end(), int64_t{0});
  if (sum != tasks) {
    return InvalidArgument(
        fmt::format("{} is {}, {} makes it {}", size.name, tasks, counts.name, sum));
  }
  if (rank >= tasks) {
    return InvalidArgument(fmt::format("SLURM_PROCID is {}, but {} is {}", rank, size.name, tasks));
  }
  LS_ASSIGN_OR_RETURN(const int plane, PlaneOf(variables));
  const std::string* components = FindVariable(variables, "SLURM_HET_SIZE");
  const bool heterogeneous = components != nullptr && *components != "1";
  if (heterogeneous && plane != internal::kBlock) {
    return InvalidArgument(
        "a heterogeneous Slurm job whose SLURM_DISTRIBUTION is not block: it is not known which "
        "task runs where");
  }
  const std::vector<internal::RankPlace> places = internal::PlaceRanks(*per_node, plane);
  if (!heterogeneous) {
    LS_TRY(CheckPlace(variables, places[static_cast<size_t>(rank)], rank));
  }
  LS_ASSIGN_OR_RETURN(Resolution resolution, internal::FromRanks(*hosts, places, rank, options));
  resolution.family = "Slurm";
  resolution.facts.push_back({"nodes", *nodes.value, std::string(nodes.name)});
  resolution.facts.push_back({"tasks of each node", *counts.value, std::string(counts.name)});
  resolution.facts.push_back({"task", resolution.task->ToString(), "SLURM_PROCID"});
  return resolution;
}

}  // namespace lockstep::cluster
