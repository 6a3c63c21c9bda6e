#include "lockstep/collective/testing/conformance.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "lockstep/collective/group.h"
#include "lockstep/collective/testing/reference.h"

namespace lockstep::collective::testing {
namespace {

using std::chrono::seconds;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin,
                             ReduceOp::kProduct};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                             DType::kInt64};
constexpr int64_t kReplicas[] = {1, 2, 5, 8, 17};
constexpr Algorithm kAlgorithms[] = {Algorithm::kAuto,     Algorithm::kGather,
                                     Algorithm::kPairwise, Algorithm::kHalvingDoubling,
                                     Algorithm::kTwoLevel, Algorithm::kShared};

std::unique_ptr<Group> MakeGroup(net::Transport& transport, const std::string& name,
                                 std::vector<net::PeerId> tasks, int64_t replicas) {
  const Kind& kind = CollectiveConformance::GetParam();
  GroupOptions options{.name = name,
                       .tasks = std::move(tasks),
                       .replicas = replicas,
                       .shared_memory = kind.shared_memory};
  for (size_t member = 0; member < options.tasks.size() && kind.members_per_host > 0; ++member) {
    options.hosts.push_back(static_cast<int>(member) / kind.members_per_host);
  }
  Result<std::unique_ptr<Group>> group =
      Group::Create(transport, options, transport.After(seconds(20)));
  EXPECT_TRUE(group.ok()) << group.status().ToString();
  return group.ok() ? std::move(group).value() : nullptr;
}

std::vector<net::PeerId> AllTasks(int members) {
  std::vector<net::PeerId> tasks;
  for (int task = 0; task < members; ++task) {
    tasks.push_back(task);
  }
  return tasks;
}

void ExpectBytes(const Bytes& found, const std::byte* expected, size_t bytes,
                 const std::string& what) {
  ASSERT_LE(bytes, found.size()) << what;
  EXPECT_TRUE(bytes == 0 || std::memcmp(found.data(), expected, bytes) == 0) << what;
}

// This member's nodes of a case.
std::vector<const void*> NodesOf(const ReductionCase& reduction, const Group& group) {
  std::vector<const void*> nodes;
  size_t next = 0;
  for (int member = 0; member < group.members(); ++member) {
    for (size_t node = 0; node < group.map().nodes(member).size(); ++node, ++next) {
      if (member == group.self()) {
        nodes.push_back(reduction.nodes[next].data());
      }
    }
  }
  return nodes;
}

// all_reduce, reduce and reduce_scatter of a case by each algorithm.
void CheckReductions(Group& group, const ReductionCase& reduction, const Deadline& deadline) {
  const std::vector<const void*> nodes = NodesOf(reduction, group);
  const size_t element = DTypeSize(reduction.spec.dtype);
  const std::string what =
      fmt::format("{} members, {} replicas", group.members(), reduction.replicas);
  for (const Algorithm algorithm : kAlgorithms) {
    CallSpec spec = reduction.spec;
    spec.algorithm = algorithm;
    Bytes output(reduction.expected.size() + 1);
    Call call = AllReduceCall(spec, nodes, output.data());
    Status status = group.Run(call, deadline);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectBytes(output, reduction.expected.data(), reduction.expected.size(),
                Describe(call) + what);

    spec.root = group.members() - 1;
    call = ReduceCall(spec, nodes, group.self() == spec.root ? output.data() : nullptr);
    std::fill(output.begin(), output.end(), std::byte{0xAA});
    status = group.Run(call, deadline);
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (group.self() == spec.root) {
      ExpectBytes(output, reduction.expected.data(), reduction.expected.size(),
                  Describe(call) + what);
    }
  }
  CallSpec spec = reduction.spec;
  const Part mine = EvenPart(spec.shape.num_elements(), group.members(), group.self());
  Bytes output(static_cast<size_t>(mine.count) * element + 1);
  const Call call = ReduceScatterCall(spec, nodes, output.data());
  const Status status = group.Run(call, deadline);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectBytes(output, reduction.expected.data() + static_cast<size_t>(mine.begin) * element,
              static_cast<size_t>(mine.count) * element, Describe(call) + what);
}

TEST_P(CollectiveConformance, ReductionsFollowTheTree) {
  for (const int members : GetParam().members) {
    std::vector<std::vector<ReductionCase>> cases;
    for (const int64_t replicas : kReplicas) {
      cases.emplace_back();
      for (const int64_t elements : {0, 1, 7, 4096}) {
        cases.back().push_back(MakeReductionCase(
            {.name = "size", .op = ReduceOp::kSum, .shape = Shape{elements}}, replicas, members));
      }
    }
    const auto cluster = GetParam().make(members);
    cluster->RunTasks([&](net::PeerId task) {
      net::Transport& transport = cluster->transport(task);
      for (const std::vector<ReductionCase>& same : cases) {
        const auto group = MakeGroup(transport, fmt::format("r{}", same.front().replicas),
                                     AllTasks(members), same.front().replicas);
        ASSERT_NE(group, nullptr);
        for (const ReductionCase& reduction : same) {
          CheckReductions(*group, reduction, transport.After(seconds(20)));
        }
      }
    });
  }
}

TEST_P(CollectiveConformance, EveryTypeAndOperation) {
  const int members = GetParam().members.back();
  const int64_t replicas = 2 * members + 1;
  std::vector<ReductionCase> cases;
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      cases.push_back(MakeReductionCase(
          {.name = "type", .op = op, .dtype = dtype, .shape = Shape{31, 3}}, replicas, members));
    }
  }
  const auto cluster = GetParam().make(members);
  cluster->RunTasks([&](net::PeerId task) {
    net::Transport& transport = cluster->transport(task);
    const auto group = MakeGroup(transport, "types", AllTasks(members), replicas);
    ASSERT_NE(group, nullptr);
    for (const ReductionCase& reduction : cases) {
      CheckReductions(*group, reduction, transport.After(seconds(20)));
    }
  });
}

TEST_P(CollectiveConformance, LargeValuesInPlace) {
  const int members = GetParam().members.back();
  // Slices of several segments, and of unequal ones.
  const int64_t elements = members <= 3 ? 1'700'003 : 100'003;
  const ReductionCase reduction = MakeReductionCase(
      {.name = "large", .op = ReduceOp::kMean, .shape = Shape{elements}}, members, members);
  const auto cluster = GetParam().make(members);
  cluster->RunTasks([&](net::PeerId task) {
    net::Transport& transport = cluster->transport(task);
    const auto group = MakeGroup(transport, "large", AllTasks(members), members);
    ASSERT_NE(group, nullptr);
    for (const Algorithm algorithm : kAlgorithms) {
      CallSpec spec = reduction.spec;
      spec.algorithm = algorithm;
      // These values have no form that needs fewer bytes, and come through whole all the same.
      spec.codec = algorithm == Algorithm::kHalvingDoubling ? Codec::kInt8 : Codec::kNone;
      Bytes value = reduction.nodes[static_cast<size_t>(task)];
      const Status status = group->Run(AllReduceCall(spec, {value.data()}, value.data()),
                                       transport.After(seconds(60)));
      ASSERT_TRUE(status.ok()) << status.ToString();
      ExpectBytes(value, reduction.expected.data(), value.size(), "large");
    }
  });
}

// What is moved without being reduced, in parts of the given numbers of elements.
void CheckMoves(Group& group, const std::vector<int64_t>& counts, const Deadline& deadline) {
  const int self = group.self();
  const int root = group.members() / 2;
  int64_t total = 0;
  for (const int64_t count : counts) {
    total += count;
  }
  CallSpec spec{.name = "moves", .dtype = DType::kInt32, .shape = Shape{total}, .counts = counts};
  spec.root = root;
  const Bytes whole = Pattern(static_cast<size_t>(total) * 4, 1);
  const Part mine = PartOf(AllGatherCall(spec, nullptr, nullptr), group.members(), self);
  const std::byte* part = whole.data() + mine.begin * 4;
  const size_t part_bytes = static_cast<size_t>(mine.count) * 4;
  Bytes output(whole.size() + 1);

  Status status = group.Run(AllGatherCall(spec, part, output.data()), deadline);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectBytes(output, whole.data(), whole.size(), "all_gather");

  std::fill(output.begin(), output.end(), std::byte{0});
  status = group.Run(GatherCall(spec, part, output.data()), deadline);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectBytes(output, self == root ? whole.data() : Bytes(whole.size()).data(), whole.size(),
              "gather");

  std::fill(output.begin(), output.end(), std::byte{0});
  status =
      group.Run(ScatterCall(spec, self == root ? whole.data() : nullptr, output.data()), deadline);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectBytes(output, part, part_bytes, "scatter");

  spec.counts.clear();
  output = self == root ? whole : Bytes(whole.size());
  output.resize(whole.size() + 1);
  status = group.Run(BroadcastCall(spec, output.data()), deadline);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectBytes(output, whole.data(), whole.size(), "broadcast");
}

void CheckAllToAll(Group& group, int64_t scale, const Deadline& deadline) {
  const int members = group.members();
  CallSpec spec{.name = "transpose", .dtype = DType::kInt32, .shape = Shape{scale * members}};
  for (const bool even : {true, false}) {
    // i to j: what a pattern of its own begins with.
    const auto count = [&](int i, int j) { return even ? scale : scale * ((i + 2 * j) % 3); };
    spec.counts.clear();
    for (int i = 0; i < members && !even; ++i) {
      for (int j = 0; j < members; ++j) {
        spec.counts.push_back(count(i, j));
      }
    }
    Bytes input;
    Bytes expected;
    for (int other = 0; other < members; ++other) {
      const auto append = [&](Bytes& bytes, int i, int j) {
        const Bytes piece =
            Pattern(static_cast<size_t>(count(i, j)) * 4, static_cast<uint64_t>(i * members + j));
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      };
      append(input, group.self(), other);
      append(expected, other, group.self());
    }
    Bytes output(expected.size() + 1);
    input.resize(input.size() + 1);
    const Status status = group.Run(AllToAllCall(spec, input.data(), output.data()), deadline);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectBytes(output, expected.data(), expected.size(), even ? "even" : "uneven");
  }
}

TEST_P(CollectiveConformance, LargeValuesInMemoryThatPeersMap) {
  const int members = GetParam().members.back();
  // The last member has a node that is cut off, others several; slices are no multiples of a line.
  const int64_t replicas = 3 * members - 1;
  std::vector<ReductionCase> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    cases.push_back(MakeReductionCase(
        {.name = "mapped", .op = ReduceOp::kMean, .dtype = dtype, .shape = Shape{100'003}},
        replicas, members));
  }
  const auto cluster = GetParam().make(members);
  cluster->RunTasks([&](net::PeerId task) {
    net::Transport& transport = cluster->transport(task);
    const auto group = MakeGroup(transport, "mapped", AllTasks(members), replicas);
    ASSERT_NE(group, nullptr);
    for (const ReductionCase& reduction : cases) {
      const size_t bytes = reduction.expected.size();
      const std::vector<const void*> nodes = NodesOf(reduction, *group);
      // Nodes and output in one region, away from its beginning; the last one does without.
      const auto region = group->Allocate((nodes.size() + 1) * (bytes + 64) + 64);
      ASSERT_TRUE(region.ok()) << region.status().ToString();
      for (const bool all : {true, false}) {
        const bool mapped = all || task != members - 1;
        Bytes own((nodes.size() + 1) * (bytes + 64) + 64);
        std::byte* at = mapped ? static_cast<std::byte*>((*region)->data()) : own.data();
        std::vector<const void*> inputs;
        for (const void* node : nodes) {
          at += 64;
          std::memcpy(at, node, bytes);
          inputs.push_back(at);
          at += bytes;
        }
        const auto run = [&](Call call, int64_t begin, int64_t count) {
          const Status status = group->Run(call, transport.After(seconds(20)));
          ASSERT_TRUE(status.ok()) << status.ToString();
          const size_t element = DTypeSize(reduction.spec.dtype);
          EXPECT_EQ(std::memcmp(call.output,
                                reduction.expected.data() + static_cast<size_t>(begin) * element,
                                static_cast<size_t>(count) * element),
                    0)
              << Describe(call);
        };
        CallSpec spec = reduction.spec;
        const int64_t elements = spec.shape.num_elements();
        const Part mine = EvenPart(elements, members, task);
        run(ReduceScatterCall(spec, inputs, at + 64), mine.begin, mine.count);
        run(AllReduceCall(spec, inputs, at + 64), 0, elements);
        spec.root = 0;
        run(ReduceCall(spec, inputs, at + 64), 0, task == 0 ? elements : 0);
      }
    }
  });
}

TEST_P(CollectiveConformance, MovesWhatIsNotReduced) {
  for (const int members : GetParam().members) {
    const auto cluster = GetParam().make(members);
    cluster->RunTasks([&](net::PeerId task) {
      net::Transport& transport = cluster->transport(task);
      const auto group = MakeGroup(transport, "moves", AllTasks(members), 0);
      ASSERT_NE(group, nullptr);
      for (const int64_t scale : {0, 1, 5, 3001}) {
        std::vector<int64_t> counts;
        for (int member = 0; member < members; ++member) {
          counts.push_back(scale * (member % 3));
        }
        CheckMoves(*group, counts, transport.After(seconds(20)));
        CheckAllToAll(*group, scale, transport.After(seconds(20)));
      }
      const Status status = group->Run(BarrierCall("end"), transport.After(seconds(20)));
      EXPECT_TRUE(status.ok()) << status.ToString();
    });
  }
}

TEST_P(CollectiveConformance, GroupsOfSomeTasksInTheirOwnOrder) {
  const int members = std::min(4, GetParam().members.back());
  const auto cluster = GetParam().make(members);
  cluster->RunTasks([&](net::PeerId task) {
    net::Transport& transport = cluster->transport(task);
    std::vector<net::PeerId> reversed = AllTasks(members);
    std::reverse(reversed.begin(), reversed.end());
    const auto all = MakeGroup(transport, "all", AllTasks(members), 0);
    const auto backwards = MakeGroup(transport, "backwards", reversed, 0);
    const auto alone = MakeGroup(transport, "alone", {task}, 5);
    ASSERT_TRUE(all != nullptr && backwards != nullptr && alone != nullptr);
    EXPECT_EQ(backwards->self(), members - 1 - task);
    for (int round = 0; round < 10; ++round) {
      int32_t first = task == 0 ? 100 + round : 0;
      int32_t last = task == members - 1 ? 200 + round : 0;
      int32_t one = 7;
      const CallSpec spec{.name = "root", .dtype = DType::kInt32, .shape = Shape{}};
      EXPECT_TRUE(all->Run(BroadcastCall(spec, &first), transport.After(seconds(20))).ok());
      EXPECT_TRUE(backwards->Run(BroadcastCall(spec, &last), transport.After(seconds(20))).ok());
      EXPECT_TRUE(alone->Run(AllReduceCall(spec, {&one}, &one), transport.After(seconds(20))).ok());
      EXPECT_EQ(first, 100 + round);
      EXPECT_EQ(last, 200 + round);
      EXPECT_EQ(one, 7);
    }
  });
}

TEST_P(CollectiveConformance, CallsInTheBackgroundKeepTheirOrder) {
  if (!GetParam().threads) {
    GTEST_SKIP() << "with virtual time a task waits in one thread";
  }
  const int members = GetParam().members.back();
  const auto cluster = GetParam().make(members);
  cluster->RunTasks([&](net::PeerId task) {
    net::Transport& transport = cluster->transport(task);
    // Members start calls of the two groups in opposite orders, which must not lock them up.
    const auto even = MakeGroup(transport, "even", AllTasks(members), 0);
    const auto odd = MakeGroup(transport, "odd", AllTasks(members), 0);
    ASSERT_TRUE(even != nullptr && odd != nullptr);
    constexpr int kCalls = 20;
    std::vector<std::vector<int64_t>> values(kCalls, std::vector<int64_t>(2000, task + 1));
    std::atomic<int> done{0};
    std::vector<Work> works;
    for (int call = 0; call < kCalls; ++call) {
      const int mine = task % 2 == 0 ? call : call ^ 1;
      const CallSpec spec{
          .name = fmt::format("{}", mine), .dtype = DType::kInt64, .shape = Shape{2000}};
      int64_t* value = values[static_cast<size_t>(mine)].data();
      Group& group = mine % 2 == 0 ? *even : *odd;
      works.push_back(group.Start(AllReduceCall(spec, {value}, value), transport.After(seconds(20)),
                                  [&done](const Status& status) { done += status.ok() ? 1 : 0; }));
    }
    for (const Work& work : works) {
      const Status status = work.Wait();
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(work.ended());
    }
    EXPECT_EQ(done, kCalls);
    for (const std::vector<int64_t>& value : values) {
      EXPECT_EQ(value, std::vector<int64_t>(2000, members * (members + 1) / 2));
    }
  });
}

}  // namespace
}  // namespace lockstep::collective::testing
