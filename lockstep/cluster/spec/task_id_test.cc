#include "lockstep/cluster/spec/task_id.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

TEST(TaskIdTest, Names) {
  EXPECT_EQ((TaskId{"worker", 2}.ToString()), "/job:worker/task:2");
  EXPECT_EQ(TaskId::Parse("/job:worker/task:2").value(), (TaskId{"worker", 2}));
  EXPECT_EQ(TaskId::Parse("/job:ps/replica:0/task:0").value(), (TaskId{"ps", 0}));
  for (const char* text :
       {"", "worker", "worker:2", "/job:worker", "/task:2", "/job:worker/replica:1/task:2",
        "/job:worker/task:2/cpu:0", "/job:worker/task:65536", "/job:*/task:2"}) {
    const Result<TaskId> id = TaskId::Parse(text);
    ASSERT_FALSE(id.ok()) << text;
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(TaskIdTest, Order) {
  EXPECT_LT((TaskId{"ps", 9}), (TaskId{"worker", 0}));
  EXPECT_LT((TaskId{"ps", 9}), (TaskId{"ps", 10}));
}

TEST(TaskIdTest, JobNames) {
  for (const char* name : {"a", "worker", "Job_2", "localhost"}) {
    EXPECT_TRUE(CheckJobName(name).ok()) << name;
  }
  for (const std::string& name : {std::string(), std::string("1a"), std::string("_a"),
                                  std::string("a-b"), std::string("a b"), std::string(65, 'a')}) {
    EXPECT_FALSE(CheckJobName(name).ok()) << name;
  }
}

}  // namespace
}  // namespace lockstep::cluster
