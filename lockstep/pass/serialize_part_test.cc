#include "lockstep/pass/serialize_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/graph/graph_text.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/const.h"
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

class SerializePartTest : public PlacedFixture {
 protected:
  // A part on cpu:1 with a feed, a variable, a Recv, a Send, a shape and a fetch.
  Part SamplePart() {
    const Value x = op::Placeholder(b_, DType::kFloat32, Shape{4}, "x");
    const Value y = op::Neg(b_, x);
    Value update;
    Value far;
    {
      const DeviceScope scope(b_, "cpu:1");
      const Value v =
          op::Variable(b_, "v", op::Const(b_, Tensor::Zeros(DType::kFloat32, Shape{4})));
      far = op::Mul(b_, op::Add(b_, x, y), v);
      const Value shaped = op::BroadcastLike(b_, op::Scalar(b_, 1), op::Exp(b_, x));
      update = op::AssignAdd(b_, v, shaped);
    }
    const Value back = op::Abs(b_, far);
    graph_.FindNode("Exp")->device = "/device:CPU:0";
    PartitionedGraph graph = Partitioned({x}, {back, far}, {update.node});
    return std::move(graph.parts[1]);
  }

  Result<Part> Parse(const Part& part) {
    return ParsePart(SerializePart(part).value(), op::Catalog(), limits_, LocalDeviceName(1));
  }

  // The error of a part that was changed.
  std::string Error(const Part& part) {
    const Result<Part> parsed = Parse(part);
    EXPECT_FALSE(parsed.ok());
    return parsed.status().message();
  }

  PartLimits limits_;
};

TEST_F(SerializePartTest, APartComesBackWhole) {
  const Part part = SamplePart();
  EXPECT_EQ(Ops(part),
            "Variable Placeholder Recv(0) Add Mul Send(1) Const ShapeOnly BroadcastLike AssignAdd");
  Result<Part> copy = Parse(part);
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_EQ(GraphToText(*copy->graph.graph), GraphToText(*part.graph.graph));
  EXPECT_EQ(copy->device, part.device);
  ASSERT_THAT(copy->graph.feeds, SizeIs(1));
  EXPECT_EQ(copy->graph.feeds[0].name(), "x");
  EXPECT_THAT(copy->feeds, ElementsAre(0));
  ASSERT_THAT(copy->graph.fetches, SizeIs(1));
  EXPECT_EQ(copy->graph.fetches[0].name(), "Mul");
  EXPECT_THAT(copy->graph.targets, IsEmpty());
}

TEST_F(SerializePartTest, NodesMustBeOnTheDevice) {
  const Part part = SamplePart();
  part.graph.graph->FindNode("Mul")->device = LocalDeviceName(0);
  EXPECT_THAT(Error(part), HasSubstr("op Mul 'Mul'"));
  part.graph.graph->FindNode("Mul")->device = part.device;
  part.graph.graph->FindNode("Mul")->colocate_with = "v";
  EXPECT_THAT(Error(part), HasSubstr("a part is placed already"));
}

TEST_F(SerializePartTest, TransfersMustLeadElsewhereAndBeNumberedOnce) {
  const Part part = SamplePart();
  Node& recv = *part.graph.graph->FindNode("Neg/recv_0");
  recv.attrs.Set("source", LocalDeviceName(1));
  EXPECT_THAT(Error(part), HasSubstr("expected the full name of another device"));
  recv.attrs.Set("source", std::string("/job:ps"));
  EXPECT_THAT(Error(part), HasSubstr("its other end is '/job:ps'"));
  recv.attrs.Set("source", std::string("cpu:0:1"));
  EXPECT_THAT(Error(part), HasSubstr("the attribute 'source' is no device"));
  recv.attrs.Set("source", LocalDeviceName(0));
  recv.attrs.Set("transfer", int64_t{1});
  EXPECT_THAT(Error(part), HasSubstr("transfer 1 is there twice"));
  recv.attrs.Set("transfer", int64_t{-1});
  EXPECT_THAT(Error(part), HasSubstr("'transfer' is -1"));
  recv.attrs.Set("transfer", int64_t{7});
  limits_.max_transfers = 7;
  EXPECT_THAT(Error(part), HasSubstr("allowed are numbers below 7"));
}

TEST_F(SerializePartTest, ShapesMustBeKnown) {
  const Part part = SamplePart();
  part.graph.graph->FindNode("Neg/recv_0")->attrs.Set("shape", Shape{-1});
  EXPECT_THAT(Error(part), HasSubstr("allowed are known dimensions"));
}

TEST_F(SerializePartTest, OpenFeedsAreRefused) {
  const Part part = SamplePart();
  part.graph.graph->FindNode("x")->attrs.Set("shape", Shape{-1});
  EXPECT_THAT(Error(part), HasSubstr("has open dimensions"));
}

TEST_F(SerializePartTest, PlaceholdersAreFeedsAndNothingElseIs) {
  const Part part = SamplePart();
  part.graph.graph->AddToCollection(kFeedCollection, part.graph.feeds[0]);
  EXPECT_THAT(Error(part), HasSubstr("is fed 2 times, expected 1"));
}

TEST_F(SerializePartTest, CollectionsAreFeedsAndFetches) {
  Part part = SamplePart();
  part.graph.graph->AddToCollection("variables", part.graph.feeds[0]);
  EXPECT_THAT(Error(part), HasSubstr("collection 'variables'"));
}

TEST_F(SerializePartTest, OnlyElementsAreFetched) {
  Part part = SamplePart();
  Node* shape = nullptr;
  for (const auto& node : part.graph.graph->nodes()) {
    shape = node->op->name == "ShapeOnly" ? node.get() : shape;
  }
  ASSERT_NE(shape, nullptr);
  part.graph.graph->AddToCollection(kFetchCollection, shape->output());
  EXPECT_THAT(Error(part), HasSubstr("has no elements"));
}

TEST_F(SerializePartTest, AShapeIsNotAValue) {
  Part part = SamplePart();
  Node* shape = nullptr;
  for (const auto& node : part.graph.graph->nodes()) {
    shape = node->op->name == "ShapeOnly" ? node.get() : shape;
  }
  ASSERT_NE(shape, nullptr);
  part.graph.graph->FindNode("AssignAdd")->inputs[1] = shape->output();
  EXPECT_THAT(Error(part), HasSubstr("has a shape and no elements"));
}

TEST_F(SerializePartTest, OrderMustBeOneThatRuns) {
  const Part part = SamplePart();
  Graph& graph = *part.graph.graph;
  graph.AddControlEdge(graph.FindNode("AssignAdd"), graph.FindNode("Add"));
  EXPECT_THAT(Error(part), HasSubstr("it stands before 'AssignAdd', which is to run first"));
}

TEST_F(SerializePartTest, CutOffBytesAreRefused) {
  const Part part = SamplePart();
  const std::string bytes = SerializePart(part).value();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Result<Part> parsed =
        ParsePart(bytes.substr(0, size), op::Catalog(), limits_, LocalDeviceName(1));
    // A cut between collections leaves a graph, which lacks its feeds or its fetches.
    EXPECT_TRUE(!parsed.ok() || parsed->graph.fetches.empty()) << size;
  }
}

TEST_F(SerializePartTest, GraphsInFilesHaveNoTransfers) {
  const Part part = SamplePart();
  EXPECT_THAT(SerializeGraph(*part.graph.graph).status().message(), HasSubstr("it is internal"));
  EXPECT_THAT(ParseGraph(SerializePart(part).value(), op::Catalog(), {}).status().message(),
              HasSubstr("op Recv is internal"));
}

}  // namespace
}  // namespace lockstep::pass
