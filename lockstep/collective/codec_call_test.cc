// Calls with codecs: the same bits for any number of members, and the bytes that they save.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include "lockstep/base/mutex.h"
#include "lockstep/collective/group.h"
#include "lockstep/collective/leaf_codec.h"
#include "lockstep/collective/testing/reference.h"
#include "lockstep/collective/tree_sum.h"
#include "lockstep/net/sim/sim_network.h"

namespace lockstep::collective {
namespace {

using std::chrono::seconds;

constexpr int64_t kElements = 5003;
constexpr int kSteps = 3;
constexpr CodecOptions kCodecCases[] = {{.codec = Codec::kBFloat16},
                                        {.codec = Codec::kFloat16},
                                        {.codec = Codec::kInt8},
                                        {.codec = Codec::kTopK, .top_share = 0.03}};

net::SimOptions CodecTasks(int members) {
  net::SimOptions options;
  options.num_tasks = members;
  return options;
}

std::vector<float> LeafOf(int64_t replica, int step) {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    const double angle = 0.7 * static_cast<double>(i) + 13.1 * static_cast<double>(replica) + step;
    values[static_cast<size_t>(i)] =
        static_cast<float>(std::sin(angle) * std::exp(std::cos(5.3 * angle)));
  }
  return values;
}

// The tree by its definition: leaves through their codecs, sums rounded at every node.
std::vector<float> NodeByDefinition(const CodecOptions& options,
                                    const std::vector<std::vector<float>>& leaves, int64_t begin,
                                    int64_t size) {
  if (size == 1) {
    return leaves[static_cast<size_t>(begin)];
  }
  std::vector<float> node = NodeByDefinition(options, leaves, begin, size / 2);
  if (begin + size / 2 < static_cast<int64_t>(leaves.size())) {
    const std::vector<float> right = NodeByDefinition(options, leaves, begin + size / 2, size / 2);
    for (size_t i = 0; i < node.size(); ++i) {
      node[i] += right[i];
    }
    RoundNode(options.codec, node.data(), static_cast<int64_t>(node.size()));
  }
  return node;
}

// What every step must give.
std::vector<std::vector<float>> Expected(const CodecOptions& options, int64_t replicas) {
  std::vector<LeafCodec> codecs(static_cast<size_t>(replicas), LeafCodec(options));
  std::vector<std::vector<float>> steps;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> leaves;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      leaves.push_back(LeafOf(replica, step));
      EXPECT_TRUE(codecs[static_cast<size_t>(replica)].Apply(0, leaves.back()).ok());
    }
    int64_t size = 1;
    while (size < replicas) {
      size *= 2;
    }
    steps.push_back(NodeByDefinition(options, leaves, 0, size));
    for (float& value : steps.back()) {
      value /= static_cast<float>(replicas);
    }
  }
  return steps;
}

// This member's nodes of a step.
std::vector<std::vector<Tensor>> NodesOfStep(const CodecOptions& options, const Group& group,
                                             std::map<int64_t, LeafCodec>& codecs, int step) {
  const ReplicaNode mine = group.map().range(group.self());
  TreeSum sum(options.codec);
  for (int64_t replica = mine.begin; replica < mine.end; ++replica) {
    std::vector<float> leaf = LeafOf(replica, step);
    EXPECT_TRUE(codecs.try_emplace(replica, options).first->second.Apply(0, leaf).ok());
    Tensor tensor = Tensor::Zeros(DType::kFloat32, Shape{kElements}).value();
    std::memcpy(tensor.values<float>().data(), leaf.data(), 4 * leaf.size());
    sum.Add({.begin = replica, .size = 1, .tensors = {tensor}});
  }
  const std::vector<ReplicaNode> nodes = group.map().nodes(group.self());
  if (!nodes.empty()) {
    sum.JoinFrom(nodes.back().begin);
  }
  return sum.TakeNodes();
}

enum class Memory { kMessages, kHosts, kShared };

struct Setting {
  int members;
  Memory memory;
  Algorithm algorithm;
};

void ExpectSteps(const CodecOptions& options, int64_t replicas, const Setting& setting,
                 const std::vector<std::vector<float>>& expected) {
  net::SimNetwork network(CodecTasks(setting.members));
  net::RunTasks(network, [&](net::PeerId task) {
    net::Transport& transport = network.transport(task);
    GroupOptions group_options{.name = "codec", .replicas = replicas};
    group_options.shared_memory = setting.memory != Memory::kMessages;
    for (int member = 0; member < setting.members; ++member) {
      group_options.tasks.push_back(member);
      if (setting.memory == Memory::kHosts) {
        group_options.hosts.push_back(member / 2);
      }
    }
    const auto group = Group::Create(transport, group_options, transport.After(seconds(20)));
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::map<int64_t, LeafCodec> codecs;
    for (int step = 0; step < kSteps; ++step) {
      const auto nodes = NodesOfStep(options, **group, codecs, step);
      std::vector<const void*> inputs;
      for (const std::vector<Tensor>& node : nodes) {
        inputs.push_back(node[0].values<float>().data());
      }
      std::vector<float> mean(kElements);
      const Call call = AllReduceCall({.name = "g",
                                       .op = ReduceOp::kMean,
                                       .shape = Shape{kElements},
                                       .algorithm = setting.algorithm,
                                       .codec = options.codec},
                                      inputs, mean.data());
      const Status status = (*group)->Run(call, transport.After(seconds(20)));
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(
          std::memcmp(mean.data(), expected[static_cast<size_t>(step)].data(), 4 * mean.size()), 0)
          << fmt::format("{}, {} replicas, {} members, step {}", Describe(call), replicas,
                         setting.members, step);
    }
  });
}

TEST(CodecCallTest, TheBitsDoNotDependOnTheMembers) {
  for (const CodecOptions& options : kCodecCases) {
    for (const int64_t replicas : {8, 5}) {
      const std::vector<std::vector<float>> expected = Expected(options, replicas);
      for (int members = 1; members <= 8; members += testing::kSanitized && members > 1 ? 2 : 1) {
        for (const Algorithm algorithm : {Algorithm::kGather, Algorithm::kPairwise}) {
          ExpectSteps(options, replicas, {members, Memory::kMessages, algorithm}, expected);
        }
        ExpectSteps(options, replicas, {members, Memory::kShared, Algorithm::kShared}, expected);
        if (members == 4 || members == 8) {
          ExpectSteps(options, replicas, {members, Memory::kHosts, Algorithm::kTwoLevel}, expected);
          ExpectSteps(options, replicas, {members, Memory::kMessages, Algorithm::kHalvingDoubling},
                      expected);
        }
      }
    }
  }
}

// Bytes that member 0 of four sends in an all-reduce of one leaf each, against those of float32.
double ShareSent(const CodecOptions& options) {
  constexpr int kMembers = 4;
  net::SimNetwork network(CodecTasks(kMembers));
  net::RunTasks(network, [&](net::PeerId task) {
    net::Transport& transport = network.transport(task);
    const auto group =
        Group::Create(transport, {.name = "bytes", .tasks = {0, 1, 2, 3}, .shared_memory = false},
                      transport.After(seconds(20)));
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    std::vector<float> leaf = LeafOf(task, 0);
    LeafCodec codec(options);
    ASSERT_TRUE(codec.Apply(0, leaf).ok());
    const Status status = (*group)->Run(AllReduceCall({.name = "g",
                                                       .shape = Shape{kElements},
                                                       .algorithm = Algorithm::kPairwise,
                                                       .codec = options.codec},
                                                      {leaf.data()}, leaf.data()),
                                        transport.After(seconds(20)));
    ASSERT_TRUE(status.ok()) << status.ToString();
  });
  int64_t bytes = 0;
  for (net::PeerId to = 1; to < kMembers; ++to) {
    bytes += network.counts(0, to).payload_bytes;
  }
  return static_cast<double>(bytes) / (2.0 * 3 / 4 * 4 * kElements);
}

TEST(CodecCallTest, FewerBytesAreSent) {
  // Greetings and headers of blocks, some per cent here, come on top.
  EXPECT_NEAR(ShareSent({.codec = Codec::kNone}), 1, 0.05);
  EXPECT_NEAR(ShareSent({.codec = Codec::kBFloat16}), 0.5, 0.05);
  EXPECT_NEAR(ShareSent({.codec = Codec::kFloat16}), 0.5, 0.05);
  // A quarter of the leaves, half of the sums.
  EXPECT_NEAR(ShareSent({.codec = Codec::kInt8}), 0.375, 0.06);
  EXPECT_LT(ShareSent({.codec = Codec::kTopK, .top_share = 0.01}), 0.1);
}

TEST(CodecCallTest, WhatHasNoCodecIsRefused) {
  net::SimNetwork network(CodecTasks(1));
  net::RunTasks(network, [&](net::PeerId task) {
    net::Transport& transport = network.transport(task);
    uint64_t generation = 0;
    const auto refused = [&](CallSpec spec, bool reduces) {
      const auto group =
          Group::Create(transport, {.name = "r", .generation = generation++, .tasks = {0}},
                        transport.After(seconds(20)));
      double value = 0;
      spec.codec = Codec::kInt8;
      spec.shape = Shape{1};
      const Status status = (*group)->Run(
          reduces ? AllReduceCall(spec, {&value}, &value) : AllGatherCall(spec, &value, &value),
          transport.After(seconds(20)));
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(status.message().find("codec int8: only sums and means of float32"),
                std::string::npos)
          << status.ToString();
    };
    refused({.dtype = DType::kFloat64}, true);
    refused({.op = ReduceOp::kMax}, true);
    refused({}, false);
  });
}

}  // namespace
}  // namespace lockstep::collective
