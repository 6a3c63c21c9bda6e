#include "lockstep/pass/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/binary.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/testing/placed_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PartitionTest : public PlacedFixture {
 protected:
  Value Input(const Shape& shape = {4}) { return op::Placeholder(b_, DType::kFloat32, shape); }

  Value Vector() { return op::Const(b_, Tensor::From<float>(Shape{4}, {1, 2, 3, 4})); }
};

TEST_F(PartitionTest, OneDeviceIsOnePartWithoutTransfers) {
  const Value x = Input();
  const Value y = op::Neg(b_, x);
  const PartitionedGraph graph = Partitioned({x}, {y});
  ASSERT_THAT(graph.parts, SizeIs(1));
  EXPECT_THAT(graph.transfers, IsEmpty());
  EXPECT_EQ(graph.parts[0].device, LocalDeviceName(0));
  EXPECT_EQ(Ops(graph.parts[0]), "Placeholder Neg");
  EXPECT_THAT(graph.parts[0].feeds, ElementsAre(0));
  EXPECT_THAT(graph.parts[0].fetches, ElementsAre(0));
}

TEST_F(PartitionTest, OneTransferForAllConsumersOfADevice) {
  const Value x = Input();
  const Value y = op::Neg(b_, x);
  Value a;
  Value b;
  {
    const DeviceScope scope(b_, "cpu:1");
    a = op::Exp(b_, y);
    b = op::Mul(b_, a, y);
  }
  Value c;
  {
    const DeviceScope scope(b_, "cpu:2");
    c = op::Abs(b_, y);
  }
  const PartitionedGraph graph = Partitioned({x}, {c, b, y});
  ASSERT_THAT(graph.parts, SizeIs(3));
  EXPECT_EQ(Ops(graph.parts[0]), "Placeholder Neg Send(0) Send(1)");
  EXPECT_EQ(Ops(graph.parts[1]), "Recv(0) Exp Mul");
  EXPECT_EQ(Ops(graph.parts[2]), "Recv(1) Abs");
  EXPECT_THAT(graph.parts[0].fetches, ElementsAre(2));
  EXPECT_THAT(graph.parts[1].fetches, ElementsAre(1));
  EXPECT_THAT(graph.parts[2].fetches, ElementsAre(0));
  ASSERT_THAT(graph.transfers, SizeIs(2));
  EXPECT_EQ(graph.transfers[0].value, "Neg");
  EXPECT_EQ(graph.transfers[0].source, LocalDeviceName(0));
  EXPECT_EQ(graph.transfers[0].destination, LocalDeviceName(1));
  EXPECT_EQ(graph.transfers[0].shape, (Shape{4}));
  EXPECT_EQ(graph.transfers[0].dtype, DType::kFloat32);
  EXPECT_EQ(graph.parts[1].graph.graph->nodes()[0]->line, y.node->line);
}

TEST_F(PartitionTest, FeedsAndSmallConstantsAreInEveryPartThatNeedsThem) {
  const Value x = Input();
  const Value k = Vector();
  const Value near = op::Add(b_, x, k);
  Value far;
  {
    const DeviceScope scope(b_, "cpu:1");
    far = op::Add(b_, x, k);
  }
  PartitionedGraph graph = Partitioned({x}, {near, far});
  EXPECT_THAT(graph.transfers, IsEmpty());
  EXPECT_EQ(Ops(graph.parts[0]), "Placeholder Const Add");
  EXPECT_EQ(Ops(graph.parts[1]), "Placeholder Const Add");
  EXPECT_THAT(graph.parts[1].feeds, ElementsAre(0));
  graph = Partitioned({x}, {near, far}, {}, {.max_copied_const_bytes = 15});
  ASSERT_THAT(graph.transfers, SizeIs(1));
  EXPECT_EQ(Ops(graph.parts[1]), "Placeholder Recv(0) Add");
}

TEST_F(PartitionTest, WhatIsOnlyFedAndFetchedGoesWhereItIsAnyway) {
  const Value x = Input();
  const DeviceScope scope(b_, "cpu:2");
  const Value y = op::Neg(b_, x);
  const PartitionedGraph graph = Partitioned({x}, {x, y});
  ASSERT_THAT(graph.parts, SizeIs(1));
  EXPECT_THAT(graph.parts[0].fetches, ElementsAre(0, 1));
  const PartitionedGraph alone = Partitioned({x}, {x});
  ASSERT_THAT(alone.parts, SizeIs(1));
  EXPECT_EQ(alone.parts[0].device, LocalDeviceName(0));
}

TEST_F(PartitionTest, ShapesAreNotSent) {
  const Value x = Input({3, 4});
  const Value big = op::Neg(b_, x);
  Value y;
  {
    const DeviceScope scope(b_, "cpu:1");
    y = op::BroadcastLike(b_, op::Scalar(b_, 2), big);
  }
  const PartitionedGraph graph = Partitioned({x}, {y});
  EXPECT_THAT(graph.transfers, IsEmpty());
  EXPECT_EQ(Ops(graph.parts.back()), "Const ShapeOnly BroadcastLike");
}

TEST_F(PartitionTest, ControlInputsCrossAsSignalsUnlessAValueDoes) {
  const Value x = Input();
  const Value a = op::Neg(b_, x);
  const Value b = op::Exp(b_, x);
  Value after_both;
  {
    const DeviceScope scope(b_, "cpu:1");
    const ControlScope controls(b_, {a, b, x});
    after_both = op::Mul(b_, a, x);
  }
  const PartitionedGraph graph = Partitioned({x}, {after_both});
  ASSERT_THAT(graph.transfers, SizeIs(2));
  EXPECT_EQ(graph.transfers[0].value, "Neg");
  EXPECT_EQ(graph.transfers[1].value, "^Exp");
  EXPECT_EQ(graph.transfers[1].shape, Shape{0});
  const Node& mul = *graph.parts[1].graph.graph->FindNode("Mul");
  ASSERT_THAT(mul.control_inputs, SizeIs(2));
  EXPECT_EQ(mul.control_inputs[0]->name, "Neg/recv_0");
  EXPECT_EQ(mul.control_inputs[1]->name, "Exp/recv_1");
}

TEST_F(PartitionTest, NobodyIsToldThatATargetHasRun) {
  Value v;
  {
    const DeviceScope scope(b_, "cpu:1");
    v = op::Variable(b_, "v", Vector());
  }
  Node* inner = op::Group(b_, std::vector<Value>{op::AssignAdd(b_, v, Vector())});
  Node* outer = op::Group(b_, std::vector<Node*>{inner});
  PartitionedGraph graph = Partitioned({}, {}, {outer});
  EXPECT_THAT(graph.transfers, IsEmpty());
  ASSERT_THAT(graph.parts, SizeIs(1));
  EXPECT_EQ(Ops(graph.parts[0]), "Variable Const AssignAdd");
  // A group that something waits for is one.
  Value after;
  {
    const ControlScope controls(b_, {Value{outer, 0}});
    after = op::Neg(b_, Vector());
  }
  graph = Partitioned({}, {after}, {outer});
  EXPECT_THAT(graph.transfers, SizeIs(1));
  EXPECT_EQ(Ops(graph.parts[0]), "Recv(0) NoOp NoOp Const Neg");
}

TEST_F(PartitionTest, ReadersOnOtherDevicesSeeTheWritesThatTheyFollow) {
  Value v;
  {
    const DeviceScope scope(b_, "cpu:1");
    v = op::Variable(b_, "v", Vector());
  }
  const Value first = op::AssignAdd(b_, v, Vector());
  const Value before = op::Neg(b_, v);
  Value after;
  {
    const ControlScope controls(b_, {first});
    after = op::Exp(b_, v);
  }
  const Value also_after = op::Abs(b_, first);
  const Value also_before = op::Square(b_, v);
  const PartitionedGraph graph = Partitioned({}, {before, after, also_after, also_before});
  // The old value, the new one, and news of the write.
  ASSERT_THAT(graph.transfers, SizeIs(3));
  EXPECT_EQ(Ops(graph.parts[1]).substr(0, 8), "Variable");
  const Graph& source = *graph.parts[1].graph.graph;
  const auto position = [&](std::string_view name) { return source.FindNode(name)->id; };
  const auto recv_of = [&](std::string_view name) {
    const Node* node = graph.parts[0].graph.graph->FindNode(name);
    return node->inputs[0].node->attrs.GetInt("transfer");
  };
  EXPECT_EQ(recv_of("Neg"), recv_of("Square"));
  EXPECT_EQ(recv_of("Exp"), recv_of("Abs"));
  EXPECT_NE(recv_of("Neg"), recv_of("Exp"));
  const auto send = [&](int64_t transfer) { return "v/send_" + std::to_string(transfer); };
  EXPECT_LT(position(send(recv_of("Neg"))), position("AssignAdd"));
  EXPECT_GT(position(send(recv_of("Exp"))), position("AssignAdd"));
  ASSERT_THAT(source.FindNode(send(recv_of("Exp")))->control_inputs, SizeIs(1));
}

// v is read after an update that only a detour over another device leads to.
TEST_F(PartitionTest, WhatFollowsByADetourFollowsInThePart) {
  const Value v = op::Variable(b_, "v", Vector());
  const Value write = op::AssignAdd(b_, v, Vector());
  Value detour;
  {
    const DeviceScope scope(b_, "cpu:1");
    detour = op::Neg(b_, write);
  }
  Value read;
  {
    const ControlScope controls(b_, {detour});
    read = op::Identity(b_, v);
  }
  const PartitionedGraph graph = Partitioned({}, {read});
  ASSERT_THAT(graph.transfers, SizeIs(2));
  const Graph& part = *graph.parts[0].graph.graph;
  const Node& recv = *part.FindNode("Neg/recv_1");
  ASSERT_THAT(recv.control_inputs, SizeIs(1));
  EXPECT_EQ(recv.control_inputs[0]->name, "v/send_0");
}

TEST_F(PartitionTest, ReadsComeBeforeWritesThatTheyDoNotFollow) {
  const Value v = op::Variable(b_, "v", Vector());
  const Value write = op::AssignAdd(b_, v, Vector());
  Value read;
  {
    const DeviceScope scope(b_, "cpu:1");
    read = op::Neg(b_, v);
  }
  const PartitionedGraph graph = Partitioned({}, {read}, {write.node});
  EXPECT_EQ(Ops(graph.parts[0]), "Variable Send(0) Const AssignAdd");
}

TEST_F(PartitionTest, ExchangedVariablesAreAnError) {
  const Value v = op::Variable(b_, "v", Vector());
  const Value w = op::Variable(b_, "w", Vector());
  const Value a = op::Assign(b_, v, w);
  const Value c = op::Assign(b_, w, v);
  EXPECT_THAT(TryPartition({}, {}, {a.node, c.node}).status().message(),
              HasSubstr("put a copy of one value in between"));
}

TEST_F(PartitionTest, NamesOfTransfersLeaveThoseOfNodesAlone) {
  const Value x = Input();
  const Value y = op::Neg(b_, x);
  Value z;
  {
    const DeviceScope scope(b_, "cpu:1");
    z = op::Identity(b_, y, "Neg/recv_0");
  }
  const PartitionedGraph graph = Partitioned({x}, {z});
  EXPECT_EQ(graph.parts[1].graph.graph->nodes()[0]->name, "Neg/recv_0_1");
  EXPECT_EQ(graph.parts[1].graph.graph->nodes()[1]->name, "Neg/recv_0");
}

TEST_F(PartitionTest, DevicesMustBeFullAndShared) {
  const Value v = op::Variable(b_, "v", Vector());
  const Value write = op::AssignAdd(b_, v, Vector());
  SpecializedGraph graph = Specialize(graph_, {}, {}, std::vector<Node*>{write.node}).value();
  EXPECT_THAT(Partition(graph, {}).status().message(), HasSubstr("no full device name"));
  for (const auto& node : graph.graph->nodes()) {
    node->device = LocalDeviceName(node->op->name == "Variable" ? 0 : 1);
  }
  EXPECT_THAT(Partition(graph, {}).status().message(), HasSubstr("writes a variable on"));
}

}  // namespace
}  // namespace lockstep::pass
