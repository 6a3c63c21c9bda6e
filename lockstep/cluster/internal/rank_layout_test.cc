#include "lockstep/cluster/internal/rank_layout.h"

#include <gtest/gtest.h>

namespace lockstep::cluster::internal {
namespace {

std::string Layout(const std::vector<int>& counts, int plane) {
  std::string text;
  for (const RankPlace& place : PlaceRanks(counts, plane)) {
    text += std::to_string(place.node) + "." + std::to_string(place.local) + " ";
  }
  return text;
}

TEST(RankLayoutTest, BlockCyclicAndPlane) {
  EXPECT_EQ(Layout({2, 1, 3}, kBlock), "0.0 0.1 1.0 2.0 2.1 2.2 ");
  EXPECT_EQ(Layout({2, 1, 3}, 1), "0.0 1.0 2.0 0.1 2.1 2.2 ");
  EXPECT_EQ(Layout({4, 4}, 2), "0.0 0.1 1.0 1.1 0.2 0.3 1.2 1.3 ");
  EXPECT_EQ(Layout({0, 2}, 1), "1.0 1.1 ");
  EXPECT_EQ(Layout({}, 1), "");
}

TEST(RankLayoutTest, Cluster) {
  RankOptions options;
  options.ps_tasks = 1;
  options.port_base = 3000;
  const auto resolution = FromRanks({"b", "a"}, PlaceRanks({2, 2}, kBlock), 3, options).value();
  EXPECT_EQ(resolution.cluster.ToJson(),
            R"({"ps":["a:3001"],"worker":["b:3000","b:3001","a:3000"]})");
  EXPECT_EQ(resolution.task, (TaskId{"ps", 0}));
}

TEST(RankLayoutTest, AHostThatIsListedTwice) {
  const auto resolution = FromRanks({"a", "a"}, PlaceRanks({2, 1}, kBlock), 0, {}).value();
  EXPECT_EQ(resolution.cluster.ToJson(), R"({"worker":["a:8888","a:8889","a:8890"]})");
}

TEST(RankLayoutTest, Faults) {
  RankOptions options;
  options.port_base = 65535;
  EXPECT_EQ(FromRanks({"a"}, PlaceRanks({2}, kBlock), 0, options).status().message(),
            "port 65536 for rank 1 on a: allowed are 1 to 65535; the port base is 65535");
  options.port_base = 0;
  EXPECT_FALSE(FromRanks({"a"}, PlaceRanks({1}, kBlock), 0, options).ok());
  EXPECT_FALSE(FromRanks({"-a"}, PlaceRanks({1}, kBlock), 0, {}).ok());
  options = {};
  options.ps_tasks = 2;
  EXPECT_EQ(FromRanks({"a"}, PlaceRanks({2}, kBlock), 0, options).status().message(),
            "2 of 2 tasks as parameter servers: allowed are 0 to 1");
}

TEST(RankLayoutTest, Variables) {
  const Variables variables = {{"A", "12"}, {"B", "-1"}, {"C", ""}};
  EXPECT_EQ(IntVariable(variables, "A", 12).value(), 12);
  EXPECT_EQ(IntVariable(variables, "A", 11).status().message(),
            "A is '12', a whole number of 0 to 11 is expected");
  EXPECT_EQ(IntVariable(variables, "B", 11).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(IntVariable(variables, "C", 11).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(IntVariable(variables, "D", 11).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::cluster::internal
