#include "lockstep/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

Status InferSource(InferContext& ctx) {
  ctx.AddOutput(DType::kFloat32, ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

Status InferSum(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameShape(0, 1));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

OpCatalog TestCatalog() {
  OpDef source{.name = "Source", .attrs = {{"shape", AttrType::kShape}}, .infer = InferSource};
  OpDef sum{.name = "Sum",
            .min_inputs = 2,
            .max_inputs = 2,
            .attrs = {{"scale", AttrType::kFloat, 1.0}},
            .infer = InferSum};
  return OpCatalog({std::move(source), std::move(sum)});
}

class GraphTest : public ::testing::Test {
 protected:
  Result<Node*> Add(const std::string& name, const std::string& op, std::vector<Value> inputs,
                    AttrMap attrs = {}) {
    NodeSpec spec;
    spec.name = name;
    spec.op = op;
    spec.inputs = std::move(inputs);
    spec.attrs = std::move(attrs);
    spec.file = "model.cc";
    spec.line = 7;
    return graph_.AddNode(std::move(spec));
  }

  OpCatalog catalog_ = TestCatalog();
  Graph graph_{catalog_};
};

TEST_F(GraphTest, InfersAndFillsDefaults) {
  Node* a = Add("a", "Source", {}, {{"shape", Shape{-1, 3}}}).value();
  Node* b = Add("b", "Source", {}, {{"shape", Shape{4, 3}}}).value();
  Node* sum = Add("sum", "Sum", {a->output(), b->output()}).value();
  EXPECT_EQ(sum->outputs[0].shape, (Shape{-1, 3}));
  EXPECT_EQ(sum->attrs.GetFloat("scale"), 1.0);
  EXPECT_EQ(graph_.FindNode("sum"), sum);
}

TEST_F(GraphTest, ErrorsNameOpNodeAndLine) {
  EXPECT_THAT(
      Add("x", "Sourse", {}).status().message(),
      HasSubstr("op Sourse 'x' (model.cc:7): there is no op 'Sourse', did you mean 'Source'?"));
  EXPECT_THAT(Add("x", "Source", {}).status().message(),
              HasSubstr("the attribute 'shape' (shape) is missing"));
  EXPECT_THAT(Add("x", "Source", {}, {{"shape", int64_t{3}}}).status().message(),
              HasSubstr("attribute 'shape' is int, expected shape"));
  EXPECT_THAT(Add("x", "Source", {}, {{"shape", Shape{}}, {"bogus", true}}).status().message(),
              HasSubstr("there is no attribute 'bogus'"));
  EXPECT_THAT(Add("bad name", "Source", {}, {{"shape", Shape{}}}).status().message(),
              HasSubstr("'bad name' is no name"));
  Node* a = Add("a", "Source", {}, {{"shape", Shape{2}}}).value();
  Node* b = Add("b", "Source", {}, {{"shape", Shape{3}}}).value();
  EXPECT_THAT(Add("s", "Sum", {a->output(), b->output()}).status().message(),
              HasSubstr("inputs 0 and 1 differ in shape: [2] and [3]"));
  EXPECT_THAT(Add("s", "Sum", {a->output()}).status().message(),
              HasSubstr("it has 1 input, expected 2"));
  EXPECT_THAT(Add("s", "Sum", {a->output(), Value{b, 1}}).status().message(),
              HasSubstr("input 1 is output 1 of 'b', which has 1 output"));
  EXPECT_EQ(Add("a", "Source", {}, {{"shape", Shape{}}}).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(graph_.nodes().size(), 2U);
  EXPECT_THAT(Add("x", "Source", {}, {{"shape", Shape{int64_t{1} << 61}}}).status().message(),
              HasSubstr("the output float32 [2305843009213693952] is larger than any memory"));
}

TEST_F(GraphTest, ACycleIsListed) {
  Node* a = Add("a", "Source", {}, {{"shape", Shape{2}}}).value();
  Node* b = Add("b", "Sum", {a->output(), a->output()}).value();
  Node* c = Add("c", "Sum", {b->output(), b->output()}).value();
  ASSERT_TRUE(graph_.TopologicalOrder().ok());
  graph_.AddControlEdge(c, b);
  const Status status = graph_.TopologicalOrder().status();
  EXPECT_THAT(status.message(), HasSubstr("the graph has a cycle: "));
  EXPECT_THAT(status.message(),
              ::testing::AnyOf(HasSubstr("b -> c -> b"), HasSubstr("c -> b -> c")));
}

TEST_F(GraphTest, FindsValuesByName) {
  Node* a = Add("a", "Source", {}, {{"shape", Shape{2}}}).value();
  EXPECT_EQ(graph_.FindValue("a").value(), a->output());
  EXPECT_EQ(graph_.FindValue("a:0").value(), a->output());
  EXPECT_EQ(graph_.FindValue("a:1").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(graph_.FindValue("a:x").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(graph_.FindValue("b").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
