#include "lockstep/pass/specialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/batch_norm.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SpecializeTest : public ::testing::Test {
 protected:
  Value Input(const Shape& shape, std::string_view name) {
    return op::Placeholder(b_, DType::kFloat32, shape, name);
  }

  static Feed Float(Value value, const Shape& shape) { return {value, DType::kFloat32, shape}; }

  Result<SpecializedGraph> Run(const std::vector<Feed>& feeds, const std::vector<Value>& fetches,
                               const std::vector<Node*>& targets = {}) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    return Specialize(graph_, feeds, fetches, targets);
  }

  static std::vector<std::string> Names(const SpecializedGraph& graph) {
    std::vector<std::string> names;
    for (const auto& node : graph.graph->nodes()) {
      names.push_back(node->name);
    }
    return names;
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(SpecializeTest, KeepsOnlyWhatIsNeeded) {
  const Value x = Input({2}, "x");
  const Value y = op::Relu(b_, x);
  op::Tanh(b_, y);
  const Value other = Input({2}, "other");
  op::Relu(b_, other);
  const SpecializedGraph graph = Run({Float(x, {2}), Float(other, {2})}, {y}).value();
  EXPECT_THAT(Names(graph), UnorderedElementsAre("x", "Relu"));
  EXPECT_TRUE(graph.feeds[0].valid());
  EXPECT_FALSE(graph.feeds[1].valid());
  EXPECT_EQ(graph.fetches[0].node->name, "Relu");
}

TEST_F(SpecializeTest, KeepsTargetsAndWhatTheyWaitFor) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Tensor::From<float>(Shape{1}, {1})));
  const Value add = op::AssignAdd(b_, v, op::Const(b_, Tensor::From<float>(Shape{1}, {2}), "two"));
  Node* step = op::Group(b_, std::vector<Value>{add}, "step");
  const SpecializedGraph graph = Run({}, {}, {step}).value();
  EXPECT_THAT(Names(graph), UnorderedElementsAre("v", "two", "AssignAdd", "step"));
  ASSERT_EQ(graph.targets.size(), 1U);
  EXPECT_THAT(graph.targets[0]->control_inputs, ElementsAre(graph.graph->FindNode("AssignAdd")));
}

TEST_F(SpecializeTest, NothingIsAskedFor) {
  op::Relu(b_, Input({2}, "x"));
  EXPECT_THAT(Names(Run({}, {}).value()), IsEmpty());
}

TEST_F(SpecializeTest, OpenShapesAreFixed) {
  const Value x = Input({-1, 3}, "x");
  const Value y = op::Relu(b_, op::MatMul(b_, x, x, false, true));
  const SpecializedGraph graph = Run({Float(x, {5, 3})}, {y}).value();
  EXPECT_EQ(graph.feeds[0].shape(), (Shape{5, 3}));
  EXPECT_EQ(graph.fetches[0].shape(), (Shape{5, 5}));
  // The graph itself stays open.
  EXPECT_FALSE(y.shape().fully_known());
}

TEST_F(SpecializeTest, InnerValuesMayBeFed) {
  const Value x = Input({-1, 2}, "x");
  const Value hidden = op::Relu(b_, x);
  const Value y = op::Tanh(b_, hidden);
  const SpecializedGraph graph = Run({Float(hidden, {4, 2})}, {y, hidden}).value();
  // What made the value is not needed; its name stays.
  EXPECT_THAT(Names(graph), UnorderedElementsAre("Relu", "Tanh"));
  EXPECT_EQ(graph.feeds[0].node->op->name, "Placeholder");
  EXPECT_EQ(graph.fetches[1], graph.feeds[0]);
  EXPECT_EQ(graph.feeds[0].node->line, hidden.node->line);
}

TEST_F(SpecializeTest, OneOutputOfANodeMayBeFed) {
  const Value x = Input({4, 3}, "x");
  const Value scale = Input({3}, "scale");
  const op::BatchNormResult norm = op::BatchNorm(b_, x, scale, scale);
  const Value y = op::Add(b_, norm.mean, norm.variance);
  const SpecializedGraph graph =
      Run({Float(x, {4, 3}), Float(scale, {3}), Float(norm.mean, {3})}, {y}).value();
  // The variance still comes from the node.
  const std::vector<Value>& inputs = graph.fetches[0].node->inputs;
  EXPECT_EQ(inputs[0], graph.feeds[2]);
  EXPECT_EQ(inputs[1].node->op->name, "BatchNorm");
  EXPECT_EQ(inputs[1].index, 2);
}

TEST_F(SpecializeTest, AVariableMayBeFedButNotWritten) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Tensor::From<float>(Shape{1}, {1})));
  const Value y = op::Relu(b_, v);
  const SpecializedGraph graph = Run({Float(v, {1})}, {y}).value();
  EXPECT_THAT(Names(graph), UnorderedElementsAre("v", "Relu"));
  EXPECT_EQ(graph.feeds[0].node->op->name, "Placeholder");
  const Value add = op::AssignAdd(b_, v, y);
  const Status status = Run({Float(v, {1})}, {add}).status();
  EXPECT_THAT(status.ToString(), HasSubstr("AssignAdd"));
  EXPECT_THAT(status.ToString(), HasSubstr("variable"));
}

TEST_F(SpecializeTest, AFedPlaceholderMayBeWaitedFor) {
  const Value x = Input({2}, "x");
  Value y;
  {
    const ControlScope controls(b_, {x});
    y = op::Const(b_, Tensor::From<float>(Shape{1}, {3}), "y");
  }
  const SpecializedGraph graph = Run({Float(x, {2})}, {y}, {x.node}).value();
  EXPECT_THAT(Names(graph), UnorderedElementsAre("y"));
  EXPECT_THAT(graph.targets, IsEmpty());
  EXPECT_THAT(Run({}, {y}).status().message(), HasSubstr("'x'"));
}

TEST_F(SpecializeTest, AMissingFeedNamesThePlaceholderAndItsLine) {
  const int line = __LINE__ + 1;
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{-1, 2}, "images");
  const Status status = Run({}, {op::Relu(b_, x)}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("op Placeholder 'images' (" + std::string(__FILE__) + ":" +
                        std::to_string(line) + ") must be fed: it is float32 [?, 2]"));
}

TEST_F(SpecializeTest, WrongFeedsAreErrors) {
  const Value x = Input({-1, 2}, "x");
  const Value y = op::Relu(b_, x);
  EXPECT_THAT(Run({{x, DType::kInt32, Shape{1, 2}}}, {y}).status().message(),
              HasSubstr("is int32 [1, 2], expected float32 [?, 2]"));
  EXPECT_THAT(Run({Float(x, {1, 3})}, {y}).status().message(),
              HasSubstr("is float32 [1, 3], expected float32 [?, 2]"));
  EXPECT_THAT(Run({Float(x, {2})}, {y}).status().message(), HasSubstr("is float32 [2], expected"));
  EXPECT_THAT(Run({Float(x, {-1, 2})}, {y}).status().message(),
              HasSubstr("is float32 [?, 2], expected"));
}

TEST_F(SpecializeTest, ShapesThatDoNotFitTogetherNameTheOp) {
  const Value x = Input({-1, 3}, "x");
  const Value y = Input({-1, 3}, "y");
  const Value sum = op::Add(b_, x, y);
  ASSERT_TRUE(Run({Float(x, {4, 3}), Float(y, {4, 3})}, {sum}).ok());
  const Status status = Run({Float(x, {4, 3}), Float(y, {5, 3})}, {sum}).status();
  EXPECT_THAT(status.ToString(), HasSubstr("Add"));
  EXPECT_THAT(status.ToString(), HasSubstr("specialize_test.cc:"));
}

TEST_F(SpecializeTest, ACycleThroughControlEdgesIsListed) {
  const Value x = Input({2}, "x");
  const Value first = op::Relu(b_, x);
  const Value second = op::Tanh(b_, first);
  graph_.AddControlEdge(second.node, first.node);
  const Status status = Run({Float(x, {2})}, {second}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("cycle"));
  EXPECT_THAT(status.message(), HasSubstr("Relu"));
  EXPECT_THAT(status.message(), HasSubstr("Tanh"));
}

}  // namespace
}  // namespace lockstep::pass
