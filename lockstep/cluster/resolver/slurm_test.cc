#include "lockstep/cluster/resolver/slurm.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

// What srun sets for a process of `srun -N 2 -n 3`.
Variables Step() {
  return {{"SLURM_JOB_ID", "42"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "2"},
          {"SLURM_NODEID", "1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NODELIST", "n[009-010]"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
          {"SLURM_JOB_NODELIST", "n[001-128]"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_TASKS_PER_NODE", "2,1"},
          {"SLURM_NODELIST", "n[001-128]"}};
}

Variables With(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

std::string Message(const Variables& variables, const RankOptions& options = {}) {
  const Result<Resolution> resolution = ResolveSlurm(variables, options);
  return resolution.ok() ? "ok" : resolution.status().ToString();
}

TEST(SlurmTest, AStep) {
  const Resolution resolution = ResolveSlurm(Step(), {}).value();
  EXPECT_EQ(resolution.family, "Slurm");
  EXPECT_EQ(resolution.cluster.ToJson(), R"({"worker":["n009:8888","n009:8889","n010:8888"]})");
  EXPECT_EQ(resolution.task, (TaskId{"worker", 2}));
  bool found = false;
  for (const Fact& fact : resolution.facts) {
    found |=
        fact.name == "nodes" && fact.value == "n[009-010]" && fact.source == "SLURM_STEP_NODELIST";
  }
  EXPECT_TRUE(found);
}

TEST(SlurmTest, OlderNamesStandInForMissingOnes) {
  Variables variables = Step();
  for (const char* name :
       {"SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    variables.erase(name);
  }
  variables["SLURM_NODELIST"] = "n[009-010]";
  EXPECT_EQ(ResolveSlurm(variables, {})->cluster, ResolveSlurm(Step(), {})->cluster);
  EXPECT_NE(Message(Without(variables, "SLURM_TASKS_PER_NODE"))
                .find("a Slurm step without SLURM_STEP_TASKS_PER_NODE"),
            std::string::npos);
}

TEST(SlurmTest, Distributions) {
  Variables variables = Step();
  variables["SLURM_STEP_NUM_TASKS"] = "5";
  variables["SLURM_STEP_TASKS_PER_NODE"] = "3,2";
  const auto cluster = [&](const std::string& distribution, const std::string& rank,
                           const std::string& node, const std::string& local) {
    Variables changed = variables;
    changed["SLURM_DISTRIBUTION"] = distribution;
    changed["SLURM_DIST_PLANESIZE"] = "2";
    changed["SLURM_PROCID"] = rank;
    changed["SLURM_NODEID"] = node;
    changed["SLURM_LOCALID"] = local;
    const Result<Resolution> resolution = ResolveSlurm(changed, {});
    return resolution.ok() ? resolution->cluster.ToJson() : resolution.status().message();
  };
  const std::string block =
      R"({"worker":["n009:8888","n009:8889","n009:8890","n010:8888","n010:8889"]})";
  EXPECT_EQ(cluster("block", "3", "1", "0"), block);
  EXPECT_EQ(cluster("block:cyclic,NoPack", "3", "1", "0"), block);
  EXPECT_EQ(cluster("cyclic", "3", "1", "1"),
            R"({"worker":["n009:8888","n010:8888","n009:8889","n010:8889","n009:8890"]})");
  EXPECT_EQ(cluster("plane", "2", "1", "0"),
            R"({"worker":["n009:8888","n009:8889","n010:8888","n010:8889","n009:8890"]})");
  EXPECT_NE(cluster("arbitrary", "0", "0", "0").find("allowed are block, cyclic and plane"),
            std::string::npos);
  // Slurm says where this rank is; another order must not go unnoticed.
  EXPECT_EQ(cluster("block", "3", "1", "1"),
            "by the tasks of each node, rank 3 is task 0 of node 1; SLURM_LOCALID is 1 and "
            "SLURM_NODEID is 1");
}

TEST(SlurmTest, HeterogeneousStep) {
  // srun --het-group=0,1: the SLURM_STEP_ variables describe both components, which may share a
  // node; SLURM_NODEID counts inside one component.
  Variables variables = Step();
  variables["SLURM_HET_SIZE"] = "2";
  variables["SLURM_STEP_NODELIST"] = "big1,n[1-2],big1";
  variables["SLURM_STEP_NUM_TASKS"] = "6";
  variables["SLURM_STEP_TASKS_PER_NODE"] = "1,2(x2),1";
  variables["SLURM_PROCID"] = "5";
  const Resolution resolution = ResolveSlurm(variables, {}).value();
  EXPECT_EQ(resolution.cluster.ToJson(),
            R"({"worker":["big1:8888","n1:8888","n1:8889","n2:8888","n2:8889","big1:8889"]})");
  EXPECT_EQ(resolution.task, (TaskId{"worker", 5}));
  EXPECT_NE(Message(With(variables, "SLURM_DISTRIBUTION", "cyclic")).find("heterogeneous"),
            std::string::npos);
}

TEST(SlurmTest, PortsAndParameterServers) {
  RankOptions options;
  options.ps_tasks = 1;
  options.port_base = 20000;
  options.port_base_given = true;
  const Resolution resolution = ResolveSlurm(Step(), options).value();
  EXPECT_EQ(resolution.cluster.ToJson(),
            R"({"ps":["n010:20000"],"worker":["n009:20000","n009:20001"]})");
  EXPECT_EQ(resolution.task, (TaskId{"ps", 0}));
  options.ps_tasks = 3;
  EXPECT_NE(Message(Step(), options).find("3 of 3 tasks as parameter servers"), std::string::npos);
}

TEST(SlurmTest, Contradictions) {
  EXPECT_NE(Message(With(Step(), "SLURM_STEP_NUM_TASKS", "4"))
                .find("SLURM_STEP_NUM_TASKS is 4, SLURM_STEP_TASKS_PER_NODE makes it 3"),
            std::string::npos);
  EXPECT_NE(Message(With(Step(), "SLURM_STEP_TASKS_PER_NODE", "3"))
                .find("SLURM_STEP_NODELIST names 2 nodes, SLURM_STEP_TASKS_PER_NODE has counts "
                      "for 1"),
            std::string::npos);
  EXPECT_NE(Message(With(Step(), "SLURM_PROCID", "3"))
                .find("SLURM_PROCID is 3, but SLURM_STEP_NUM_TASKS is 3"),
            std::string::npos);
  EXPECT_NE(Message(With(Step(), "SLURM_PROCID", "x")).find("SLURM_PROCID is 'x', a whole number"),
            std::string::npos);
  EXPECT_NE(Message(With(Step(), "SLURM_NODEID", "")).find("SLURM_NODEID is ''"),
            std::string::npos);
  const std::string list = Message(With(Step(), "SLURM_STEP_NODELIST", "n[1-999999999]"));
  EXPECT_NE(list.find("a range of 999999999 hosts"), std::string::npos);
  EXPECT_NE(list.find("[SLURM_STEP_NODELIST]"), std::string::npos);
  EXPECT_NE(Message(With(Step(), "SLURM_STEP_TASKS_PER_NODE", "65536(x2)"))
                .find("SLURM_STEP_TASKS_PER_NODE makes it 131072"),
            std::string::npos);
}

TEST(SlurmTest, WhereThisProcessIs) {
  EXPECT_TRUE(InSlurmStep(Step()));
  EXPECT_TRUE(InSlurmJob(Step()));
  // The four variables that TensorFlow's resolver reads are enough.
  EXPECT_TRUE(InSlurmStep({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "a"}}));
  // A batch script has a rank, but no step.
  const Variables batch = {{"SLURM_JOB_ID", "42"},       {"SLURM_PROCID", "0"},
                           {"SLURM_LOCALID", "0"},       {"SLURM_JOB_NODELIST", "n[1-2]"},
                           {"SLURM_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  EXPECT_FALSE(InSlurmStep(batch));
  EXPECT_TRUE(InSlurmJob(batch));
  EXPECT_FALSE(InSlurmJob({}));
}

}  // namespace
}  // namespace lockstep::cluster
