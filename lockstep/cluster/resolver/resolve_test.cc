#include "lockstep/cluster/resolver/resolve.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

const char* const kTfConfig =
    R"({"cluster":{"worker":["tf:1","tf:2"]},"task":{"type":"worker","index":0}})";

Variables Slurm() {
  return {{"SLURM_JOB_ID", "1"},         {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "0"},         {"SLURM_STEP_NODELIST", "slurm"},
          {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}};
}

Variables OpenMpi() {
  return {{"OMPI_COMM_WORLD_RANK", "0"},
          {"OMPI_COMM_WORLD_SIZE", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"PMIX_RANK", "0"}};
}

Variables Both(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// The family, then the notes.
std::string Answer(const Variables& variables, const ClusterFlags& flags = {}) {
  const Result<Resolution> resolution = ResolveCluster(variables, flags);
  if (!resolution.ok()) {
    return resolution.status().ToString();
  }
  std::string text = resolution->family;
  for (const std::string& note : resolution->notes) {
    text += "\n" + note;
  }
  return text;
}

TEST(ResolveTest, OneFamily) {
  EXPECT_EQ(Answer({}), "none");
  EXPECT_EQ(Answer({{"TF_CONFIG", ""}}), "none");
  EXPECT_EQ(Answer({{"TF_CONFIG", kTfConfig}}), "TF_CONFIG");
  EXPECT_EQ(Answer(Slurm()), "Slurm");
  EXPECT_EQ(Answer(OpenMpi()), "Open MPI");
  ClusterFlags flags;
  flags.hosts = {ParseHosts("a,b").value(), "--hosts"};
  EXPECT_EQ(Answer({{"PMIX_RANK", "1"}}, flags), "PMIx");
}

TEST(ResolveTest, TheFirstIsUsedAndTheOthersAreNamed) {
  EXPECT_EQ(Answer(Both({{"TF_CONFIG", kTfConfig}}, Slurm())),
            "TF_CONFIG\nVariables of Slurm are set too; they are ignored, because the cluster "
            "comes from TF_CONFIG.");
  EXPECT_EQ(Answer(Both(OpenMpi(), Slurm())),
            "Open MPI\nVariables of Slurm are set too; they are ignored, because the cluster "
            "comes from Open MPI.");
  EXPECT_EQ(Answer(Both(Slurm(), {{"PMIX_RANK", "0"}})), "Slurm");
  ClusterFlags flags;
  flags.spec = "worker|a:1";
  EXPECT_EQ(Answer(Both({{"TF_CONFIG", kTfConfig}, {"PMIX_RANK", "0"}}, Slurm()), flags),
            "--spec\nVariables of TF_CONFIG are set too; they are ignored, because the cluster "
            "comes from --spec.\nVariables of Slurm are set too; they are ignored, because the "
            "cluster comes from --spec.\nVariables of PMIx are set too; they are ignored, because "
            "the cluster comes from --spec.");
  // A broken first one is an error, not a reason to take the next.
  EXPECT_NE(Answer(Both({{"TF_CONFIG", "{"}}, Slurm())).find("TF_CONFIG: line 1"),
            std::string::npos);
}

TEST(ResolveTest, TaskFlags) {
  ClusterFlags flags;
  flags.spec = "ps|p:1,worker|a:1;b:1";
  const auto task = [&]() -> std::string {
    const Result<Resolution> resolution = ResolveCluster({}, flags);
    if (!resolution.ok()) {
      return resolution.status().ToString();
    }
    return resolution->task ? resolution->task->ToString() : "none";
  };
  EXPECT_EQ(task(), "none");
  flags.job = "worker";
  EXPECT_NE(task().find("the index of this task must be given"), std::string::npos);
  flags.task = 1;
  EXPECT_EQ(task(), "/job:worker/task:1");
  flags.task = 2;
  EXPECT_NE(task().find("there is no /job:worker/task:2"), std::string::npos);
  flags.job = "evaluator";
  flags.task = 0;
  EXPECT_EQ(task(), "/job:evaluator/task:0");
  flags.job = "ps";
  flags.task.reset();
  EXPECT_EQ(task(), "/job:ps/task:0");
  flags = {};
  flags.spec = "worker|a:1";
  EXPECT_EQ(task(), "/job:worker/task:0");
}

TEST(ResolveTest, AFlagWinsOverTheTaskOfAFile) {
  ClusterFlags flags;
  flags.file_path = "c.json";
  flags.file_text = kTfConfig;
  EXPECT_EQ(ResolveCluster({}, flags)->task, (TaskId{"worker", 0}));
  flags.job = "worker";
  flags.task = 1;
  const Resolution resolution = ResolveCluster({}, flags).value();
  EXPECT_EQ(resolution.task, (TaskId{"worker", 1}));
  int tasks = 0;
  for (const Fact& fact : resolution.facts) {
    tasks += fact.name == "task" ? 1 : 0;
  }
  EXPECT_EQ(tasks, 1);
}

TEST(ResolveTest, FlagsWithoutEffectAreRefused) {
  ClusterFlags flags;
  flags.job = "worker";
  EXPECT_NE(Answer({{"TF_CONFIG", kTfConfig}}, flags).find("need --spec or --cluster"),
            std::string::npos);
  flags = {};
  flags.spec = "worker|a:1";
  flags.file_path = "c";
  EXPECT_NE(Answer({}, flags).find("both describe the cluster"), std::string::npos);
  flags = {};
  flags.ranks.ps_tasks = 1;
  EXPECT_NE(Answer({{"TF_CONFIG", kTfConfig}}, flags)
                .find("--ps is given, but TF_CONFIG describes the whole cluster"),
            std::string::npos);
  EXPECT_NE(Answer({}, flags).find("--ps is given, but no launcher started this process"),
            std::string::npos);
  flags.spec = "worker|a:1";
  EXPECT_NE(Answer({}, flags).find("--ps is given, but --spec"), std::string::npos);
  flags = {};
  flags.hosts = {ParseHosts("a").value(), "--hosts"};
  EXPECT_NE(Answer(Slurm(), flags).find("Slurm says which hosts"), std::string::npos);
}

TEST(ResolveTest, InAJobButNotInAStep) {
  EXPECT_NE(Answer({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}}).find("start the program with"),
            std::string::npos);
}

TEST(ResolveTest, VariablesToCollect) {
  const char* const environment[] = {"TF_CONFIG={}",   "SLURM_PROCID=1", "OMPI_COMM_WORLD_RANK=2",
                                     "PMIX_RANK=",     "LOCKSTEP_X=a=b", "PATH=/",
                                     "TF_CONFIG_X=1",  "SLURM=1",        "OMPI_MCA_x=1",
                                     "no equals sign", nullptr};
  const Variables expected = {{"TF_CONFIG", "{}"},
                              {"SLURM_PROCID", "1"},
                              {"OMPI_COMM_WORLD_RANK", "2"},
                              {"PMIX_RANK", ""},
                              {"LOCKSTEP_X", "a=b"}};
  EXPECT_EQ(CollectVariables(environment), expected);
  EXPECT_TRUE(CollectVariables(nullptr).empty());
}

}  // namespace
}  // namespace lockstep::cluster
