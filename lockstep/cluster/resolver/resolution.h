// What a resolver answers: the cluster as the surroundings of this process describe it, which task
// this process is, and where each fact came from. Resolvers are pure functions of a map of
// variables, the text of a file, and flags; the program reads these, nothing here does.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster {

// Environment variables by name.
using Variables = std::map<std::string, std::string, std::less<>>;

struct Fact {
  std::string name;
  std::string value;
  // "TF_CONFIG, line 1, column 14", "SLURM_PROCID", "--port-base", "default".
  std::string source;
};

struct Resolution {
  // Which description was used: "--spec", a file's path, "TF_CONFIG", "Open MPI", "Slurm", "PMIx";
  // "none" if this process is alone.
  std::string family = "none";
  // The members of training; an evaluator is none. Empty for a process that is alone.
  ClusterSpec cluster;
  // This process: a member, or the evaluator; nothing for a client, and for a process that is
  // alone.
  std::optional<TaskId> task;
  std::vector<Fact> facts;
  // What was passed over or ignored, in whole sentences.
  std::vector<std::string> notes;

  bool is_evaluator() const { return task && task->job == "evaluator"; }

  bool is_chief() const { return task && cluster.chief() == task; }
};

// How ranks become tasks: the last `ps_tasks` of them are parameter servers, all others workers, so
// that rank 0 is worker 0, the chief.
struct RankOptions {
  int ps_tasks = 0;
  // Task i of a host listens on this port + i.
  int port_base = 8888;
  bool port_base_given = false;
};

}  // namespace lockstep::cluster
