#include "lockstep/cluster/resolver/description.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

std::string Answer(const Result<Resolution>& resolution) {
  return resolution.ok() ? (resolution->task ? resolution->task->ToString() : "no task") + " of " +
                               resolution->cluster.ToJson()
                         : resolution.status().ToString();
}

TEST(DescriptionTest, Toml) {
  EXPECT_EQ(Answer(ResolveFile("[cluster]\nps = ['a:1']\nworker = {0 = 'b:1', 7 = 'c:1'}\n"
                               "[task]\ntype = 'worker'\nindex = 7\n",
                               "c.toml")),
            R"(/job:worker/task:7 of {"ps":["a:1"],"worker":{"0":"b:1","7":"c:1"}})");
  EXPECT_EQ(Answer(ResolveFile("trainer = ['a:1', '[::1]:2']\n", "c.toml")),
            R"(no task of {"trainer":["a:1","[::1]:2"]})");
}

TEST(DescriptionTest, Json) {
  EXPECT_EQ(Answer(ResolveFile(R"({"cluster": {"worker": ["a:1", "b:1"]},
                                   "task": {"type": "worker", "index": 1}})",
                               "c.json")),
            R"(/job:worker/task:1 of {"worker":["a:1","b:1"]})");
  EXPECT_EQ(Answer(ResolveFile(R"({"worker": ["a:1"]})", "c")), R"(no task of {"worker":["a:1"]})");
  // A job may have any name.
  EXPECT_EQ(Answer(ResolveFile(R"({"cluster": ["a:1"], "task": ["b:1"]})", "c")),
            R"(no task of {"cluster":["a:1"],"task":["b:1"]})");
}

TEST(DescriptionTest, AnEvaluatorIsNoMember) {
  const Resolution resolution = ResolveFile(
                                    "[cluster]\nworker = ['a:1']\nevaluator = ['b:1']\n"
                                    "[task]\ntype = 'evaluator'\nindex = 0\n",
                                    "c.toml")
                                    .value();
  EXPECT_TRUE(resolution.is_evaluator());
  EXPECT_EQ(resolution.cluster.ToJson(), R"({"worker":["a:1"]})");
  EXPECT_EQ(resolution.notes.size(), 1U);
}

TEST(DescriptionTest, FaultsNameTheFileAndThePlace) {
  const auto fault = [](std::string_view text, const std::string& path) {
    return Answer(ResolveFile(text, path));
  };
  EXPECT_NE(fault("worker = ['a:1'\n", "c.toml").find("c.toml:"), std::string::npos);
  EXPECT_NE(fault("\nworker = ['a:1', 'b']\n", "c.toml").find("c.toml:2:18: /job:worker/task:1"),
            std::string::npos);
  EXPECT_NE(fault("a = ['a:1']\na = ['b:1']\n", "c.toml").find("c.toml:2:"), std::string::npos);
  EXPECT_NE(fault("worker = 2020-01-01\n", "c.toml").find("c.toml:1:10: a date"),
            std::string::npos);
  EXPECT_NE(fault("x = 1\ny[" + std::string(1, '\0'), "c.toml")
                .find("c.toml:2:3: the control character '\\x00'"),
            std::string::npos);
  EXPECT_NE(fault("x = '\xff'", "c.toml").find("c.toml:1:6: bytes that are not UTF-8"),
            std::string::npos);
  EXPECT_NE(fault("x = 1\n\xe2\x82\xac = 2", "c.toml").find("c.toml:2:1: a character that is not"),
            std::string::npos);
  EXPECT_TRUE(
      ResolveFile("\xef\xbb\xbf# \xe2\x82\xac\nworker = ['a:1'] # \xe2\x82\xac", "c.toml").ok());
  for (const char* header : {"[@a]", "[[@a]]", " [ @a]", "[", "[\n", "[[]", "[.a]", "[#"}) {
    EXPECT_NE(fault(header, "c.toml").find("c.toml:1:"), std::string::npos) << header;
  }
  EXPECT_NE(fault("x = 1\ny = \"\"\"a\n[@\"\"\"", "c.toml").find("c.toml:2:5: a string of several"),
            std::string::npos);
  EXPECT_NE(fault("worker = [1.5]\n", "c.toml").find("found the number 1.5"), std::string::npos);
  EXPECT_NE(fault("", "c.toml").find("c.toml:1:1: the cluster has no tasks"), std::string::npos);
  EXPECT_NE(fault("{}", "c.json").find("c.json:1:1: the cluster has no tasks"), std::string::npos);
  EXPECT_NE(fault("{\"worker\":[\"a:1\",]}", "c.json").find("c.json:1:18:"), std::string::npos);
  EXPECT_NE(fault(R"({"cluster":{"worker":["a:1"]},"tsk":{}})", "c.json")
                .find("c.json:1:31: unknown key 'tsk' in the file, did you mean 'task'?"),
            std::string::npos);
  EXPECT_NE(fault("[cluster]\nworker = ['a:1']\n[task]\ntype = 'worker'\nindex = 1\n", "c.toml")
                .find("c.toml:3:1: there is no /job:worker/task:1"),
            std::string::npos);
  EXPECT_NE(fault("[cluster]\nworker = ['a:1']\n[task]\ntype = 'worker'\nindex = -1\n", "c.toml")
                .find("c.toml:5:9: task.index: found the number -1"),
            std::string::npos);
}

TEST(DescriptionTest, OneArgument) {
  EXPECT_EQ(Answer(ResolveSpecText("ps|a:2222,worker|b:2222;c:2222")),
            R"(no task of {"ps":["a:2222"],"worker":["b:2222","c:2222"]})");
  EXPECT_NE(Answer(ResolveSpecText("a:1,b:1")).find("'a:1' is no job; expected JOB|HOST:PORT"),
            std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("")).find("'' is no job"), std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("|a:1")).find("'|a:1' is no job"), std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("w|a:1,w|b:1")).find("the job 'w' is given twice"),
            std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("w|a:1;;b:1")).find("the address is empty"), std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("w|a:1;a:1")).find("the same address"), std::string::npos);
  EXPECT_NE(Answer(ResolveSpecText("w-1|a:1")).find("job name 'w-1'"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cluster
