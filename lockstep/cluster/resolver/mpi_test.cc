#include "lockstep/cluster/resolver/mpi.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

Variables OpenMpiRank(int rank, int size, int local_rank, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"PMIX_RANK", std::to_string(rank)}};
}

HostSlotsList SlotsOn(std::string_view text) {
  return {ParseHosts(text).value(), "--hosts"};
}

std::string MpiAnswer(const Result<Resolution>& resolution) {
  return resolution.ok() ? resolution->task->ToString() + " of " + resolution->cluster.ToJson()
                         : resolution.status().ToString();
}

std::string Slots(const Result<std::vector<HostSlots>>& hosts) {
  if (!hosts.ok()) {
    return hosts.status().ToString();
  }
  std::string text;
  for (const HostSlots& host : *hosts) {
    text += fmt::format("{}:{} ", host.host, host.slots);
  }
  return text;
}

TEST(MpiTest, OneHostNeedsNothing) {
  EXPECT_EQ(MpiAnswer(ResolveOpenMpi(OpenMpiRank(1, 3, 1, 3), {}, {})),
            "/job:worker/task:1 of "
            R"({"worker":["127.0.0.1:8888","127.0.0.1:8889","127.0.0.1:8890"]})");
}

TEST(MpiTest, SeveralHosts) {
  EXPECT_EQ(MpiAnswer(ResolveOpenMpi(OpenMpiRank(2, 3, 0, 1), SlotsOn("a:2,b:4"), {})),
            R"(/job:worker/task:2 of {"worker":["a:8888","a:8889","b:8888"]})");
  const std::string message = MpiAnswer(ResolveOpenMpi(OpenMpiRank(2, 3, 0, 1), {}, {}));
  EXPECT_NE(message.find("started 3 tasks, 1 of them on this host"), std::string::npos) << message;
  EXPECT_NE(message.find("--host-file"), std::string::npos);
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(OpenMpiRank(0, 4, 0, 2), SlotsOn("a:2,b"), {}))
                .find("there are 4 tasks, but --hosts has slots for 3 only"),
            std::string::npos);
  // Another order than the launcher's.
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(OpenMpiRank(1, 4, 0, 2), SlotsOn("a:2,b:2"), {}))
                .find("rank 1 is number 1 of 2 on its host; the launcher says number 0 of 2"),
            std::string::npos);
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(OpenMpiRank(0, 4, 0, 1), SlotsOn("a:2,b:2"), {}))
                .find("the launcher says number 0 of 1"),
            std::string::npos);
}

TEST(MpiTest, OpenMpiVariables) {
  Variables variables = OpenMpiRank(0, 2, 0, 2);
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(variables, {}, {}))
                .find("OMPI_COMM_WORLD_RANK is 2, but OMPI_COMM_WORLD_SIZE is 2"),
            std::string::npos);
  variables["OMPI_COMM_WORLD_RANK"] = "-1";
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(variables, {}, {})).find("OMPI_COMM_WORLD_RANK is '-1'"),
            std::string::npos);
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  variables.erase("OMPI_COMM_WORLD_SIZE");
  EXPECT_NE(MpiAnswer(ResolveOpenMpi(variables, {}, {})).find("OMPI_COMM_WORLD_SIZE is not set"),
            std::string::npos);
  EXPECT_TRUE(UnderOpenMpi(variables));
  EXPECT_FALSE(UnderOpenMpi({{"PMIX_RANK", "0"}}));
}

TEST(MpiTest, PmixNeedsHosts) {
  const Variables variables = {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "job@1"}};
  EXPECT_TRUE(UnderPmix(variables));
  EXPECT_NE(MpiAnswer(ResolvePmix(variables, {}, {})).find("neither how many tasks there are"),
            std::string::npos);
  EXPECT_EQ(MpiAnswer(ResolvePmix(variables, SlotsOn("a,b"), {})),
            R"(/job:worker/task:1 of {"worker":["a:8888","b:8888"]})");
  EXPECT_NE(MpiAnswer(ResolvePmix(variables, SlotsOn("a"), {}))
                .find("PMIX_RANK is 1, but --hosts has 1 slots"),
            std::string::npos);
}

TEST(MpiTest, ListsOfHosts) {
  EXPECT_EQ(Slots(ParseHosts("a:2,b,n[1-2,5]:4")), "a:2 b:1 n1:4 n2:4 n5:4 ");
  EXPECT_NE(Slots(ParseHosts("a:0")).find("slots '0'"), std::string::npos);
  EXPECT_NE(Slots(ParseHosts("a:x")).find("slots 'x'"), std::string::npos);
  EXPECT_NE(Slots(ParseHosts("")).find("expected a host name"), std::string::npos);
  EXPECT_NE(Slots(ParseHosts("a,,b")).find("expected a host name"), std::string::npos);
  EXPECT_NE(Slots(ParseHosts("n[1-2")).find("expected"), std::string::npos);
}

TEST(MpiTest, HostFiles) {
  EXPECT_EQ(Slots(ParseHostFile("# nodes\n\na slots=2\r\nb   slots=3 max_slots=4 # x\nc", "hosts")),
            "a:2 b:3 c:1 ");
  EXPECT_NE(Slots(ParseHostFile("a\nb slots=x\n", "hosts")).find("[hosts:2]"), std::string::npos);
  EXPECT_NE(Slots(ParseHostFile("a b\n", "hosts")).find("hosts:1: found 'b'"), std::string::npos);
  EXPECT_NE(Slots(ParseHostFile("a:1\n", "hosts")).find("hosts:1: 'a:1' is no host name"),
            std::string::npos);
  EXPECT_NE(Slots(ParseHostFile("# none\n", "hosts")).find("hosts: no hosts"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cluster
