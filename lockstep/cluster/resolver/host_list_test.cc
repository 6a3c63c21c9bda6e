#include "lockstep/cluster/resolver/host_list.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "lockstep/cluster/spec/task_id.h"

namespace lockstep::cluster {
namespace {

std::string Hosts(std::string_view text) {
  const auto hosts = ExpandHostList(text);
  return hosts.ok() ? fmt::format("{}", fmt::join(*hosts, " ")) : hosts.status().message();
}

std::string Counts(std::string_view text) {
  const auto counts = ExpandCounts(text);
  return counts.ok() ? fmt::format("{}", fmt::join(*counts, " ")) : counts.status().message();
}

TEST(HostListTest, ListsThatOthersGotWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"n[1-3,7,009-011]-ib,gpu1", "n1-ib n2-ib n3-ib n7-ib n009-ib n010-ib n011-ib gpu1"},
      // Leading zeros lost.
      {"n[009-011]", "n009 n010 n011"},
      {"xxx0[00-05]", "xxx000 xxx001 xxx002 xxx003 xxx004 xxx005"},
      {"nid[00001-00003]", "nid00001 nid00002 nid00003"},
      // One zero too many.
      {"b04-[09-10]", "b04-09 b04-10"},
      // Numbers that are no ranges.
      {"nodes[006,011]", "nodes006 nodes011"},
      {"host[001,003-004,006]", "host001 host003 host004 host006"},
      {"linux[1,2]", "linux1 linux2"},
      // Names without any bracket.
      {"alpha,beta,gamma", "alpha beta gamma"},
      {"a1", "a1"},
      // Digits and dashes before the bracket.
      {"gpu-compute-on-demand-dy-g4dnxlarge-[1-4]",
       "gpu-compute-on-demand-dy-g4dnxlarge-1 gpu-compute-on-demand-dy-g4dnxlarge-2 "
       "gpu-compute-on-demand-dy-g4dnxlarge-3 gpu-compute-on-demand-dy-g4dnxlarge-4"},
      {"c1009a-s17,c1010a-s11", "c1009a-s17 c1010a-s11"},
      {"compute-b24-[1-3,5-6], compute-b25-[1,4],compute-b25-[2-3]",
       "compute-b24-1 compute-b24-2 compute-b24-3 compute-b24-5 compute-b24-6 compute-b25-1 "
       "compute-b25-4 compute-b25-2 compute-b25-3"},
      // A bracket somewhere, and plain names around it.
      {"nodeA,nodeB[001,003],nodeC", "nodeA nodeB001 nodeB003 nodeC"},
      {"ml-16-node-[001-002,004],ml-17-node-[001-003]",
       "ml-16-node-001 ml-16-node-002 ml-16-node-004 ml-17-node-001 ml-17-node-002 "
       "ml-17-node-003"},
      {"tux[1-2]\n", "tux1 tux2"},
      {"broadwell[008-009,014],skylake01", "broadwell008 broadwell009 broadwell014 skylake01"},
      // Names of pods, and of Cray cabinets.
      {"profile-slurm-xxxxx-0.profile-slurm-xxxxx,profile-slurm-xxxxx-1.profile-slurm-xxxxx",
       "profile-slurm-xxxxx-0.profile-slurm-xxxxx profile-slurm-xxxxx-1.profile-slurm-xxxxx"},
      {"x1000c0s[0-1]b[0,1]n0", "x1000c0s0b0n0 x1000c0s0b1n0 x1000c0s1b0n0 x1000c0s1b1n0"},
      {"n[1-2],m5,o[3-4,6]", "n1 n2 m5 o3 o4 o6"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[099-101]", "n099 n100 n101"},
      {"n[5]", "n5"},
      {"[1-2]n", "1n 2n"},
      {"a,a", "a a"},
      {"n[3,1,2]", "n3 n1 n2"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Hosts(text), expected) << text;
  }
}

TEST(HostListTest, MalformedLists) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "byte 0: expected a host name, found the end"},
      {",a", "byte 0: expected a host name, found ','"},
      {"a,", "byte 2: expected a host name, found the end"},
      {"a,,b", "byte 2: expected a host name, found ','"},
      {"n[", "byte 2: expected a number, found the end"},
      {"n[]", "byte 2: expected a number, found ']'"},
      {"n[1", "byte 3: expected ',', '-' or ']', found the end"},
      {"n[1-", "byte 4: expected a number, found the end"},
      {"n[1-]", "byte 4: expected a number, found ']'"},
      {"n[-1]", "byte 2: expected a number, found '-'"},
      {"n[1,]", "byte 4: expected a number, found ']'"},
      {"n[1-2-3]", "byte 5: expected ',', '-' or ']', found '-'"},
      {"n[1 2]", "byte 3: expected ',', '-' or ']', found ' '"},
      {"n[a-c]", "byte 2: expected a number, found 'a'"},
      {"n[[1]]", "byte 2: expected a number, found '['"},
      {"n]1[", "byte 1: expected ',' or the end, found ']'"},
      {"n[3-1]", "byte 2: the range 3-1 goes backwards"},
      {"n[8-010]", "byte 2: the ends of the range 8-010 have different padding"},
      {"n[001-10]", "byte 2: the ends of the range 001-10 have different padding"},
      {"a b", "byte 2: expected ',' or the end, found 'b'"},
      {"a;b", "byte 1: expected ',' or the end, found ';'"},
      {"(null)", "byte 0: expected a host name, found '('"},
      {"n[000x133]", "byte 5: expected ',', '-' or ']', found 'x'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(Hosts(text).find(expected), std::string::npos) << text << ": " << Hosts(text);
    EXPECT_EQ(Hosts(text).substr(0, 9), "host list") << text;
  }
}

TEST(HostListTest, HostileSizesAreRefusedBeforeTheyAreExpanded) {
  EXPECT_NE(Hosts("n[1-999999999]").find("a range of 999999999 hosts"), std::string::npos);
  EXPECT_NE(Hosts("n[1-999999999999999999]").find("a range of 999999999999999999"),
            std::string::npos);
  EXPECT_NE(Hosts("n[1-99999999999999999999]").find("a number of 20 digits"), std::string::npos);
  EXPECT_NE(Hosts("a[1-999]b[1-999]").find("stands for more than"), std::string::npos);
  EXPECT_NE(Hosts("a[1-60000],b[1-60000]").find("more than 65536 hosts"), std::string::npos);
  EXPECT_NE(Hosts(std::string(300, 'a')).find("too long"), std::string::npos);
  std::string brackets;
  for (int i = 0; i < 100000; ++i) {
    brackets += "[1]";
  }
  EXPECT_NE(Hosts(brackets).find("too long"), std::string::npos);
  EXPECT_NE(Hosts(std::string((1 << 20) + 1, 'a')).find("bytes are more"), std::string::npos);
  EXPECT_EQ(ExpandHostList("n[1-65536]")->size(), 65536U);
}

TEST(HostListTest, CountsPerNode) {
  EXPECT_EQ(Counts("1"), "1");
  EXPECT_EQ(Counts("2(x3),1"), "2 2 2 1");
  EXPECT_EQ(Counts("3(x2),2,1"), "3 3 2 1");
  EXPECT_EQ(Counts("1,2,1(x3),3,2"), "1 2 1 1 1 3 2");
  EXPECT_EQ(Counts("8(x2)\n"), "8 8");
  EXPECT_EQ(Counts("2,0"), "2 0");
}

TEST(HostListTest, MalformedCounts) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "byte 0: expected a number, found the end"},
      {"2(", "byte 2: expected 'x', found the end"},
      {"2(3)", "byte 2: expected 'x', found '3'"},
      {"2(x)", "byte 3: expected a number, found ')'"},
      {"2(x3", "byte 4: expected ')', found the end"},
      {"2(x3)1", "byte 5: expected ',', '(' or the end, found '1'"},
      {"2,", "byte 2: expected a number, found the end"},
      {"-1", "byte 0: expected a number, found '-'"},
      {"2(x0)", "byte 0: out of range"},
      {"2(x999999999)", "byte 0: out of range"},
      {"99999999", "byte 0: out of range"},
      {"1(x65536),1", "byte 10: out of range"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(Counts(text).find(expected), std::string::npos) << text << ": " << Counts(text);
  }
}

}  // namespace
}  // namespace lockstep::cluster
