#include "lockstep/graph/graph_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Status InferTextSource(InferContext& ctx) {
  const auto& shape = ctx.attrs().Get<Shape>("shape");
  ctx.AddVariableOutput(DType::kFloat32, shape);
  ctx.AddOutput(DType::kInt64, shape);
  return OkStatus();
}

Status InferNothing(InferContext& /*ctx*/) {
  return OkStatus();
}

TEST(GraphTextTest, OneNodeALine) {
  const OpCatalog catalog({{.name = "Source",
                            .attrs = {{"shape", AttrType::kShape}, {"note", AttrType::kString}},
                            .infer = InferTextSource},
                           {.name = "Sink", .max_inputs = 2, .infer = InferNothing}});
  Graph graph(catalog);
  EXPECT_EQ(GraphToText(graph), "");
  NodeSpec source;
  source.name = "in/x";
  source.op = "Source";
  source.attrs = {{"shape", Shape{-1, 3}}, {"note", std::string("a\nb\x1b")}};
  Node* x = graph.AddNode(std::move(source)).value();
  NodeSpec sink;
  sink.name = "end";
  sink.op = "Sink";
  sink.inputs = {x->output(), x->output(1)};
  sink.control_inputs = {x};
  sink.device = "/job:worker/device:CPU:0";
  sink.file = "model.cc";
  sink.line = 12;
  graph.AddNode(std::move(sink)).value();
  graph.AddToCollection("losses", x->output(1));
  graph.AddToCollection("losses", x->output());
  EXPECT_EQ(GraphToText(graph),
            "in/x = Source() {note: \"a\\nb\\x1b\", shape: [?, 3]} -> float32 [?, 3] variable, "
            "int64 [?, 3]\n"
            "end = Sink(in/x, in/x:1, ^in/x) @/job:worker/device:CPU:0  # model.cc:12\n"
            "collection losses = in/x:1, in/x\n");
}

}  // namespace
}  // namespace lockstep
