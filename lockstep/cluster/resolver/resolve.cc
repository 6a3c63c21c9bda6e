#include "lockstep/cluster/resolver/resolve.h"

#include <fmt/format.h>

#include "lockstep/cluster/internal/rank_layout.h"
#include "lockstep/cluster/resolver/description.h"
#include "lockstep/cluster/resolver/slurm.h"
#include "lockstep/cluster/resolver/tf_config.h"
#include "lockstep/cluster/spec/server_def.h"

namespace lockstep::cluster {
namespace {

bool HasTfConfig(const Variables& variables) {
  const std::string* text = internal::FindVariable(variables, "TF_CONFIG");
  return text != nullptr && !text->empty();
}

// Which task --job and --task name.
Status ApplyTaskFlags(const ClusterFlags& flags, Resolution& resolution) {
  if (!flags.job && !flags.task) {
    if (!resolution.task && resolution.cluster.size() == 1) {
      resolution.task = resolution.cluster.tasks()[0].id;
      resolution.facts.push_back(
          {"task", resolution.task->ToString(), "the only task of the cluster"});
    }
    if (!resolution.task) {
      resolution.notes.push_back(
          "Neither --job nor --task is given: this process is a client of the cluster, not a "
          "member.");
    }
    return OkStatus();
  }
  if (flags.job == "evaluator") {
    if (flags.task.value_or(0) != 0) {
      return InvalidArgument("--task: there is one evaluator, its index is 0");
    }
    resolution.task = TaskId{"evaluator", 0};
  } else {
    const Result<ServerDef> def =
        ServerDef::Create(resolution.cluster, {.job = flags.job, .index = flags.task});
    if (!def.ok()) {
      return def.status().With("--job, --task");
    }
    resolution.task = def->task();
  }
  std::erase_if(resolution.facts, [](const Fact& fact) { return fact.name == "task"; });
  resolution.facts.push_back({"task", resolution.task->ToString(),
                              flags.job && flags.task ? "--job, --task"
                              : flags.job             ? "--job"
                                                      : "--task"});
  return OkStatus();
}

Result<Resolution> ResolveFlags(const ClusterFlags& flags) {
  if (flags.spec && flags.file_path) {
    return InvalidArgument("--spec and --cluster both describe the cluster; give one");
  }
  LS_ASSIGN_OR_RETURN(Resolution resolution, flags.spec
                                                 ? ResolveSpecText(*flags.spec)
                                                 : ResolveFile(flags.file_text, *flags.file_path));
  LS_TRY(ApplyTaskFlags(flags, resolution));
  return resolution;
}

// Flags that would have no effect.
Status RefuseRankFlags(const ClusterFlags& flags, std::string_view why) {
  const std::string_view flag = !flags.hosts.hosts.empty()    ? "--hosts or --host-file"
                                : flags.ranks.ps_tasks != 0   ? "--ps"
                                : flags.ranks.port_base_given ? "--port-base"
                                                              : "";
  if (!flag.empty()) {
    return InvalidArgument(fmt::format("{} is given, but {}", flag, why));
  }
  return OkStatus();
}

// What else describes a cluster, behind the family that was used.
void NotePassedOver(const Variables& variables, Resolution& resolution) {
  const auto note = [&](bool present, std::string_view family) {
    if (present && resolution.family != family) {
      resolution.notes.push_back(fmt::format(
          "Variables of {} are set too; they are ignored, because the cluster comes from {}.",
          family, resolution.family));
    }
  };
  note(HasTfConfig(variables), "TF_CONFIG");
  note(UnderOpenMpi(variables), "Open MPI");
  note(InSlurmStep(variables), "Slurm");
  // Every mpirun and many a srun set PMIx's variables for the same ranks.
  note(UnderPmix(variables) && resolution.family != "Open MPI" && resolution.family != "Slurm",
       "PMIx");
}

Result<Resolution> ResolveVariables(const Variables& variables, const ClusterFlags& flags) {
  if (HasTfConfig(variables)) {
    LS_TRY(RefuseRankFlags(flags, "TF_CONFIG describes the whole cluster"));
    return ResolveTfConfig(*internal::FindVariable(variables, "TF_CONFIG"));
  }
  if (UnderOpenMpi(variables)) {
    return ResolveOpenMpi(variables, flags.hosts, flags.ranks);
  }
  if (InSlurmStep(variables)) {
    if (!flags.hosts.hosts.empty()) {
      return InvalidArgument(
          "--hosts or --host-file is given, but Slurm says which hosts there are");
    }
    return ResolveSlurm(variables, flags.ranks);
  }
  if (UnderPmix(variables)) {
    return ResolvePmix(variables, flags.hosts, flags.ranks);
  }
  LS_TRY(RefuseRankFlags(flags, "no launcher started this process"));
  Resolution alone;
  if (InSlurmJob(variables)) {
    alone.notes.push_back(
        "This is inside a Slurm job, but not a step of it: start the program with srun.");
  }
  return alone;
}

bool IsClusterVariable(std::string_view name) {
  return name == "TF_CONFIG" || name.starts_with("SLURM_") || name.starts_with("LOCKSTEP_") ||
         name.starts_with("OMPI_COMM_WORLD_") || name.starts_with("PMIX_");
}

}  // namespace

Result<Resolution> ResolveCluster(const Variables& variables, const ClusterFlags& flags) {
  const bool written = flags.spec || flags.file_path;
  if (!written && (flags.job || flags.task)) {
    return InvalidArgument("--job and --task need --spec or --cluster");
  }
  if (written) {
    LS_TRY(RefuseRankFlags(flags, flags.spec ? "--spec describes the whole cluster"
                                             : "--cluster describes the whole cluster"));
  }
  LS_ASSIGN_OR_RETURN(Resolution resolution,
                      written ? ResolveFlags(flags) : ResolveVariables(variables, flags));
  NotePassedOver(variables, resolution);
  return resolution;
}

Variables CollectVariables(const char* const* environment) {
  Variables variables;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view text = *environment;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && IsClusterVariable(text.substr(0, equals))) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace lockstep::cluster
