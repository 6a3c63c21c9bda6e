#include "lockstep/pass/rewrite.h"

#include <gmock/gmock.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/testing/fusion_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RewriteTest : public FusionFixture {
 protected:
  static Node* Copy(const SpecializedGraph& graph, Value value) {
    return graph.graph->FindNode(value.node->name);
  }
};

TEST_F(RewriteTest, ReadersOncePerInput) {
  const Value x = Input({2});
  const Value y = op::Mul(b_, x, x);
  const Value z = op::Add(b_, x, y);
  const SpecializedGraph graph = Specialized({z});
  const Uses uses(graph);
  EXPECT_THAT(uses.readers(Copy(graph, x)->output()),
              ElementsAre(Copy(graph, y), Copy(graph, y), Copy(graph, z)));
  EXPECT_THAT(uses.readers(Copy(graph, z)->output()), IsEmpty());
}

TEST_F(RewriteTest, PrivateValues) {
  const Value a = op::Exp(b_, Input({2}));
  const Value b = op::Exp(b_, a);
  const Value c = op::Exp(b_, b);
  const Value d = op::Exp(b_, c);
  Value waits;
  {
    const ControlScope controls(b_, {c});
    waits = op::Exp(b_, d);
  }
  const SpecializedGraph graph = Specialized({waits, b});
  const Uses uses(graph);
  EXPECT_TRUE(uses.PrivateTo(Copy(graph, a)->output(), Copy(graph, b)));
  EXPECT_FALSE(uses.PrivateTo(Copy(graph, a)->output(), Copy(graph, c))) << "not its reader";
  EXPECT_FALSE(uses.PrivateTo(Copy(graph, b)->output(), Copy(graph, c))) << "fetched";
  EXPECT_FALSE(uses.PrivateTo(Copy(graph, c)->output(), Copy(graph, d))) << "waited for";
  const SpecializedGraph more = Specialized({op::Exp(b_, waits)});
  const Node* last = more.fetches[0].node;
  EXPECT_FALSE(Uses(more).PrivateTo(last->inputs[0], last)) << "it waits itself";
}

TEST_F(RewriteTest, WritesOfVariablesSeparateNodes) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Tensor::From<float>(Shape{2}, {1, 2})));
  const Value w = op::Variable(b_, "w", op::Const(b_, Tensor::From<float>(Shape{2}, {1, 2})));
  const Value before = op::Exp(b_, v);
  const Value first = op::AssignAdd(b_, v, before);
  const Value between = op::Exp(b_, first);
  const Value second = op::AssignAdd(b_, w, between);
  Value by_control;
  {
    const ControlScope controls(b_, {second});
    by_control = op::Exp(b_, before);
  }
  const Value after = op::Exp(b_, op::Exp(b_, second));
  const SpecializedGraph graph = Specialized({by_control, after});
  const Uses uses(graph);
  const auto same = [&](Value a, Value b) {
    return uses.SeeTheSameVariables(Copy(graph, a), Copy(graph, b));
  };
  EXPECT_TRUE(same(v, before));
  EXPECT_TRUE(same(before, first)) << "a write sees what is before it";
  EXPECT_FALSE(same(before, between));
  EXPECT_TRUE(same(between, second));
  EXPECT_FALSE(same(between, after)) << "after one write and after two";
  EXPECT_TRUE(same(after.node->inputs[0], after));
  EXPECT_FALSE(same(before, by_control));
}

TEST_F(RewriteTest, ReplacesAGroupAndKeepsTheRest) {
  const Value x = Input({3});
  const Value unused = Input({3}, "unused");
  const Value inner = op::Exp(b_, x);
  const Value last = op::Neg(b_, inner);
  const Value reader = op::Tanh(b_, last);
  Node* group = op::Group(b_, std::vector<Value>{last}, "group");
  const SpecializedGraph graph = Specialized({reader, last, x}, {group, last.node});
  EXPECT_FALSE(graph.feeds[1].valid()) << unused.name();
  Rewriter rewriter;
  EXPECT_TRUE(rewriter.empty());
  Replacement replacement;
  replacement.op = "Relu";
  replacement.inputs = {Copy(graph, x)->output()};
  replacement.outputs = {Copy(graph, last)->output()};
  rewriter.Replace({Copy(graph, inner), Copy(graph, last)}, Copy(graph, last),
                   std::move(replacement));
  EXPECT_FALSE(rewriter.empty());
  EXPECT_TRUE(rewriter.Takes(Copy(graph, inner)));
  EXPECT_FALSE(rewriter.Takes(Copy(graph, reader)));

  const SpecializedGraph result = rewriter.Apply(graph).value();
  EXPECT_THAT(Ops(result), ElementsAre("NoOp", "Relu", "Tanh"));
  Node* relu = result.graph->FindNode(last.node->name);
  ASSERT_NE(relu, nullptr);
  EXPECT_EQ(relu->op->name, "Relu");
  EXPECT_EQ(relu->file, last.node->file);
  EXPECT_EQ(relu->line, last.node->line);
  EXPECT_EQ(result.fetches[0].node->inputs[0], relu->output());
  EXPECT_EQ(result.fetches[1], relu->output());
  EXPECT_EQ(result.fetches[2], result.feeds[0]);
  EXPECT_FALSE(result.feeds[1].valid());
  EXPECT_THAT(result.targets, ElementsAre(result.graph->FindNode("group"), relu));
  EXPECT_THAT(result.targets[0]->control_inputs, ElementsAre(relu));
}

TEST_F(RewriteTest, AReplacementThatDoesNotFitIsAnError) {
  const Value y = op::Exp(b_, Input({3}));
  const SpecializedGraph graph = Specialized({y});
  Rewriter rewriter;
  rewriter.Replace({Copy(graph, y)}, Copy(graph, y), {.op = "MatMul"});
  EXPECT_FALSE(rewriter.Apply(graph).ok());
}

}  // namespace
}  // namespace lockstep::pass
