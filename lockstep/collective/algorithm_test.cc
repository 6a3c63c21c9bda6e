// Every algorithm for every way to deal replicas out, and what it sends.
#include "lockstep/collective/algorithm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "lockstep/collective/group.h"
#include "lockstep/collective/testing/reference.h"
#include "lockstep/net/sim/sim_network.h"

namespace lockstep::collective {
namespace {

using std::chrono::seconds;
using testing::ReductionCase;

constexpr Algorithm kMessageAlgorithms[] = {Algorithm::kAuto, Algorithm::kGather,
                                            Algorithm::kPairwise, Algorithm::kHalvingDoubling,
                                            Algorithm::kTwoLevel};

net::SimOptions TasksOf(int members) {
  net::SimOptions options;
  options.num_tasks = members;
  return options;
}

// A group of all tasks of a network, without shared memory, or with it on the given hosts.
std::unique_ptr<Group> MakeGroup(net::SimNetwork& network, net::PeerId task, int64_t replicas,
                                 std::vector<int> hosts = {}) {
  net::Transport& transport = network.transport(task);
  GroupOptions options{.name = "all", .replicas = replicas, .shared_memory = !hosts.empty()};
  options.hosts = std::move(hosts);
  for (int member = 0; member < network.num_tasks(); ++member) {
    options.tasks.push_back(member);
  }
  Result<std::unique_ptr<Group>> group =
      Group::Create(transport, options, transport.After(seconds(20)));
  EXPECT_TRUE(group.ok()) << group.status().ToString();
  return group.ok() ? std::move(group).value() : nullptr;
}

std::vector<const void*> InputsOf(const ReductionCase& reduction, const Group& group) {
  std::vector<const void*> inputs;
  size_t next = 0;
  for (int member = 0; member < group.members(); ++member) {
    for (size_t node = 0; node < group.map().nodes(member).size(); ++node, ++next) {
      if (member == group.self()) {
        inputs.push_back(reduction.nodes[next].data());
      }
    }
  }
  return inputs;
}

TEST(AlgorithmTest, NamesAreReadBack) {
  for (const Algorithm algorithm : kMessageAlgorithms) {
    EXPECT_EQ(ParseAlgorithm(AlgorithmName(algorithm)).value(), algorithm);
  }
  EXPECT_NE(ParseAlgorithm("ring").status().message().find("halving_doubling"), std::string::npos);
}

TEST(AlgorithmTest, TheTreeForEveryNumberOfReplicasAndMembers) {
  for (int64_t replicas = 1; replicas <= 17; replicas += testing::kSanitized ? 4 : 1) {
    for (int members = 1; members <= replicas; ++members) {
      const ReductionCase reduction = testing::MakeReductionCase(
          {.name = "r", .op = ReduceOp::kMean, .shape = Shape{13}}, replicas, members);
      net::SimNetwork network(TasksOf(members));
      net::RunTasks(network, [&](net::PeerId task) {
        const auto group = MakeGroup(network, task, replicas);
        ASSERT_NE(group, nullptr);
        for (const Algorithm algorithm : kMessageAlgorithms) {
          CallSpec spec = reduction.spec;
          spec.algorithm = algorithm;
          testing::Bytes output(reduction.expected.size());
          const Status status =
              group->Run(AllReduceCall(spec, InputsOf(reduction, *group), output.data()),
                         network.transport(task).After(seconds(20)));
          ASSERT_TRUE(status.ok()) << status.ToString();
          EXPECT_EQ(output, reduction.expected) << fmt::format(
              "{} replicas, {} members, {}", replicas, members, AlgorithmName(algorithm));
        }
      });
    }
  }
}

// Hosts of 1, 2 and 3 members in turn, from one of these on.
std::vector<int> HostsOf(int members, int first) {
  std::vector<int> hosts;
  for (int host = 0; static_cast<int>(hosts.size()) < members; ++host) {
    const int size = std::min((host + first) % 3 + 1, members - static_cast<int>(hosts.size()));
    hosts.insert(hosts.end(), static_cast<size_t>(size), host);
  }
  return hosts;
}

TEST(AlgorithmTest, TheTreeForEveryNumberOfMembersOnSeveralHosts) {
  for (int64_t replicas = 1; replicas <= 17; replicas += testing::kSanitized ? 8 : 2) {
    for (int members = 3; members <= replicas + 1; ++members) {
      const ReductionCase reduction = testing::MakeReductionCase(
          {.name = "r", .op = ReduceOp::kMean, .shape = Shape{37}}, replicas, members);
      net::SimNetwork network(TasksOf(members));
      net::RunTasks(network, [&](net::PeerId task) {
        const auto group =
            MakeGroup(network, task, replicas, HostsOf(members, static_cast<int>(replicas % 3)));
        ASSERT_NE(group, nullptr);
        CallSpec spec = reduction.spec;
        spec.algorithm = Algorithm::kTwoLevel;
        testing::Bytes output(reduction.expected.size());
        const Deadline deadline = network.transport(task).After(seconds(20));
        const Status status =
            group->Run(AllReduceCall(spec, InputsOf(reduction, *group), output.data()), deadline);
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(output, reduction.expected)
            << fmt::format("{} replicas, {} members", replicas, members);
      });
    }
  }
}

struct Sent {
  int64_t messages = 0;  // of a member, besides the meeting
  int64_t bytes = 0;     // of all of these
};

// What member 0 sends in an all-reduce of `elements` float32 by the algorithm, one node each.
Sent SentBy(Algorithm algorithm, int members, int64_t elements,
            const std::vector<int>& hosts = {}) {
  net::SimNetwork network(TasksOf(members));
  const auto total = [&] {
    Sent sent;
    for (net::PeerId to = 1; to < members; ++to) {
      // Within a host only those are woken who sleep.
      if (!hosts.empty() && hosts[static_cast<size_t>(to)] == hosts[0]) {
        continue;
      }
      sent.messages += network.counts(0, to).messages;
      sent.bytes += network.counts(0, to).payload_bytes;
    }
    return sent;
  };
  Sent before;
  Sent after;
  net::RunTasks(network, [&](net::PeerId task) {
    const auto group = MakeGroup(network, task, members, hosts);
    ASSERT_NE(group, nullptr);
    const auto run = [&](const CallSpec& spec) {
      std::vector<float> values(static_cast<size_t>(spec.shape.num_elements()));
      const Status status = group->Run(AllReduceCall(spec, {values.data()}, values.data()),
                                       network.transport(task).After(seconds(20)));
      EXPECT_TRUE(status.ok()) << status.ToString();
    };
    const auto note = [&](Sent& sent) {
      // Nobody else sends as long as member 0 has not come to the next call.
      if (task == 0) {
        sent = total();
      }
    };
    CallSpec spec{.name = "count", .shape = Shape{0}, .algorithm = algorithm};
    note(before);
    run(spec);
    note(after);
    const Sent meeting{after.messages - before.messages, after.bytes - before.bytes};
    spec.shape = Shape{elements};
    run(spec);
    if (task == 0) {
      const Sent all = total();
      before = {after.messages + meeting.messages, after.bytes + meeting.bytes};
      after = all;
    }
  });
  return {after.messages - before.messages, after.bytes - before.bytes};
}

TEST(AlgorithmTest, WhatIsSentIsWhatTheDocumentSays) {
  constexpr int kMembers = 8;
  constexpr int64_t kElements = 1 << 14;
  constexpr int64_t kBytes = 4 * kElements;
  // The number of elements in the description of a call has some digits.
  constexpr int64_t kDigits = 7 * 8;

  const Sent gather = SentBy(Algorithm::kGather, kMembers, kElements);
  EXPECT_EQ(gather.messages, 7);
  EXPECT_NEAR(gather.bytes, 7 * kBytes, kDigits);
  const Sent pairwise = SentBy(Algorithm::kPairwise, kMembers, kElements);
  EXPECT_EQ(pairwise.messages, 2 * 7);
  EXPECT_NEAR(pairwise.bytes, 2 * 7 * kBytes / 8, kDigits);
  const Sent halving = SentBy(Algorithm::kHalvingDoubling, kMembers, kElements);
  EXPECT_EQ(halving.messages, 2 * 3);
  EXPECT_NEAR(halving.bytes, 2 * 7 * kBytes / 8, kDigits);
  // Four hosts of two: each of the two sees to half the value.
  const Sent levels = SentBy(Algorithm::kTwoLevel, kMembers, kElements, {0, 0, 1, 1, 2, 2, 3, 3});
  EXPECT_EQ(levels.messages, 2 * 3);
  EXPECT_NEAR(levels.bytes, 2 * 3 * (kBytes / 2) / 4, kDigits);
}

TEST(AlgorithmTest, TheRulesTakeTheAlgorithmForTheSize) {
  EXPECT_EQ(SentBy(Algorithm::kAuto, 8, 1000).messages, 0);         // gather, in the meeting
  EXPECT_EQ(SentBy(Algorithm::kAuto, 8, 1 << 14).messages, 2 * 3);  // halving_doubling
  EXPECT_EQ(SentBy(Algorithm::kAuto, 8, 1 << 17).messages, 2 * 7);  // pairwise
  EXPECT_EQ(SentBy(Algorithm::kAuto, 4, 1 << 14).messages, 2 * 3);  // pairwise
  EXPECT_EQ(SentBy(Algorithm::kAuto, 4, 1 << 14, {0, 0, 1, 1}).messages, 2);      // two_level
  EXPECT_EQ(SentBy(Algorithm::kAuto, 4, 1 << 14, {0, 1, 0, 1}).messages, 2 * 2);  // hosts are mixed
  EXPECT_EQ(SentBy(Algorithm::kHalvingDoubling, 6, 1 << 14).messages, 2 * 5);  // cannot: pairwise
}

}  // namespace
}  // namespace lockstep::collective
