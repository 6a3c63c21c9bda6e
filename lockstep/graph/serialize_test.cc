#include "lockstep/graph/serialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "lockstep/graph/graph_text.h"
#include "lockstep/graph/testing/sample_graph.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(std::span<const Value> values) {
  std::vector<std::string> names;
  for (const Value& value : values) {
    names.push_back(value.name());
  }
  return names;
}

std::vector<std::string> Names(const std::vector<Node*>& nodes) {
  std::vector<std::string> names;
  for (const Node* node : nodes) {
    names.push_back(node->name);
  }
  return names;
}

void ExpectSameNode(const Node& a, const Node& b) {
  SCOPED_TRACE(a.name);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(Names(a.inputs), Names(b.inputs));
  EXPECT_EQ(Names(a.control_inputs), Names(b.control_inputs));
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.file, b.file);
  EXPECT_EQ(a.line, b.line);
  ASSERT_EQ(a.attrs.size(), b.attrs.size());
  for (const auto& [name, value] : a.attrs) {
    const AttrValue* other = b.attrs.Find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(AttrEquals(value, *other)) << name;
  }
}

void ExpectSameGraph(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    ExpectSameNode(*a.nodes()[i], *b.nodes()[i]);
  }
  ASSERT_EQ(a.collections().size(), b.collections().size());
  for (const auto& [name, values] : a.collections()) {
    EXPECT_EQ(Names(values), Names(b.Collection(name))) << name;
  }
}

class SerializeTest : public ::testing::Test {
 protected:
  SerializeTest() {
    Builder builder(graph_);
    testing::BuildSampleGraph(builder);
    EXPECT_TRUE(builder.status().ok()) << builder.status().ToString();
  }

  Result<std::unique_ptr<Graph>> Parse(std::string_view bytes) const {
    return ParseGraph(bytes, catalog_, {});
  }

  Node* Add(NodeSpec spec) { return graph_.AddNode(std::move(spec)).value(); }

  OpCatalog catalog_{testing::SampleOps()};
  Graph graph_{catalog_};
};

TEST_F(SerializeTest, ARoundTripKeepsEverything) {
  const std::string bytes = SerializeGraph(graph_).value();
  const auto copy = Parse(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  ExpectSameGraph(graph_, **copy);
  // What the sample is meant to bring.
  const Node* init = (*copy)->FindNode("layer/init");
  ASSERT_NE(init, nullptr);
  EXPECT_EQ(init->device, "/job:worker/task:1/device:CPU:0");
  EXPECT_EQ(init->file, "model.cc");
  EXPECT_EQ(init->line, 12);
  EXPECT_TRUE(init->outputs[0].is_variable);
  EXPECT_THAT(Names((*copy)->Collection("losses")),
              ElementsAre("last", "layer/TestPair:1", "last"));
  EXPECT_THAT(Names((*copy)->Collection(collection::kUpdateOps)), ElementsAre("done"));
  EXPECT_THAT(Names((*copy)->FindNode("done")->control_inputs), ElementsAre("layer/TestPair", "x"));
}

TEST_F(SerializeTest, EqualGraphsHaveEqualBytes) {
  const std::string bytes = SerializeGraph(graph_).value();
  Graph again(catalog_);
  Builder builder(again);
  testing::BuildSampleGraph(builder);
  EXPECT_EQ(SerializeGraph(again).value(), bytes);
  EXPECT_EQ(SerializeGraph(*Parse(bytes).value()).value(), bytes);
}

TEST_F(SerializeTest, TheBytesOfVersion1) {
  // Worked out by hand from graph.proto, so that the format cannot change unseen.
  Graph graph(catalog_);
  NodeSpec spec;
  spec.name = "a";
  spec.op = "TestInput";
  spec.attrs = {{"dtype", DType::kInt32}, {"shape", Shape{-1, 5}}};
  spec.line = 3;
  graph.AddToCollection("c", graph.AddNode(std::move(spec)).value()->output());
  constexpr std::string_view kExpected(
      "\x08\x01"                                       // version 1
      "\x12\x37"                                       // a node of 55 bytes
      "\x0a\x01\x61"                                   // name "a"
      "\x12\x09TestInput"                              // op
      "\x2a\x0b\x0a\x05\x64type\x12\x02\x30\x04"       // attr dtype = 4
      "\x2a\x18\x0a\x05shape\x12\x0f\x3a\x0d\x0a\x0b"  // attr shape, 11 bytes of dims
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05"   // -1, 5
      "\x38\x03"                                       // line 3
      "\x1a\x06\x0a\x01\x63\x12\x01\x61");             // collection "c" of "a"
  EXPECT_EQ(SerializeGraph(graph).value(), kExpected);
}

TEST_F(SerializeTest, FloatsKeepTheirBits) {
  const double nan = std::bit_cast<double>(uint64_t{0xfff8000000001234});
  for (const double value : {nan, -0.0, 5e-324, 0.1, HUGE_VAL}) {
    Graph graph(catalog_);
    NodeSpec spec;
    spec.name = "c";
    spec.op = "TestConst";
    spec.attrs = {{"value", *Tensor::Scalar<double>(value)}};
    Node* c = graph.AddNode(std::move(spec)).value();
    NodeSpec sum;
    sum.name = "s";
    sum.op = "TestSum";
    sum.inputs = {c->output()};
    sum.attrs = {{"scale", value}};
    graph.AddNode(std::move(sum)).value();
    const auto copy = Parse(SerializeGraph(graph).value());
    ASSERT_TRUE(copy.ok()) << copy.status().ToString();
    const auto bits = std::bit_cast<uint64_t>(value);
    EXPECT_EQ(std::bit_cast<uint64_t>((*copy)->FindNode("s")->attrs.GetFloat("scale")), bits);
    const auto tensor = (*copy)->FindNode("c")->attrs.Get<Tensor>("value");
    EXPECT_EQ(std::bit_cast<uint64_t>(tensor.values<double>()[0]), bits);
  }
}

TEST_F(SerializeTest, ControlEdgesAgainstTheOrderOfCreationKeepTheOrder) {
  graph_.AddControlEdge(graph_.FindNode("bytes"), graph_.FindNode("x"));
  const auto copy = Parse(SerializeGraph(graph_).value());
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  ExpectSameGraph(graph_, **copy);
  EXPECT_THAT(Names((*copy)->FindNode("x")->control_inputs), ElementsAre("bytes"));
}

TEST_F(SerializeTest, AnEmptyGraph) {
  const Graph empty(catalog_);
  const std::string bytes = SerializeGraph(empty).value();
  EXPECT_EQ(bytes, "\x08\x01");
  EXPECT_EQ(Parse(bytes).value()->nodes().size(), 0U);
}

TEST_F(SerializeTest, WhatCannotBeReadIsNotWritten) {
  const auto error = [&](NodeSpec spec) {
    Graph graph(catalog_);
    NodeSpec x;
    x.name = "x";
    x.op = "TestInput";
    x.attrs = {{"shape", Shape{}}};
    Node* input = graph.AddNode(std::move(x)).value();
    if (spec.op == "TestFused") {
      spec.inputs = {input->output()};
    }
    spec.name = "n";
    graph.AddNode(std::move(spec)).value();
    const Status status = SerializeGraph(graph).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(error({.op = "TestFused"}), HasSubstr("op TestFused 'n', op: it is internal"));
  EXPECT_THAT(error({.op = "TestNothing", .file = "a\nb"}),
              HasSubstr("op TestNothing 'n', file: 'a\\nb' has a control character"));
  EXPECT_THAT(error({.op = "TestNothing", .attrs = {{"label", std::string("\x1b")}}}),
              HasSubstr("attrs[label]: '\\x1b' has a control character"));
  EXPECT_THAT(error({.op = "TestConst", .attrs = {{"value", Tensor()}}}),
              HasSubstr("attrs[value]: the tensor has no value"));
}

// The result is an error with a message, or a graph that can be written and read again.
void ExpectSane(const Result<std::unique_ptr<Graph>>& result, const OpCatalog& catalog) {
  if (!result.ok()) {
    EXPECT_NE(result.status().message(), "");
    return;
  }
  const Result<std::string> bytes = SerializeGraph(**result);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto again = ParseGraph(*bytes, catalog, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(SerializeGraph(**again).value(), *bytes);
}

TEST_F(SerializeTest, NoTruncationPassesUnnoticed) {
  const std::string bytes = SerializeGraph(graph_).value();
  size_t whole = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto result = Parse(std::string_view(bytes).substr(0, size));
    ExpectSane(result, catalog_);
    // Where a node or collection ends, the rest may be a smaller graph; nowhere else.
    whole += result.ok() ? 1U : 0U;
  }
  EXPECT_LE(whole, graph_.nodes().size() + graph_.collections().size());
}

TEST_F(SerializeTest, DamagedBytesAreErrorsOrOtherGraphs) {
  const std::string bytes = SerializeGraph(graph_).value();
  size_t errors = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned mask : {1U << (i % 8), 0xffU}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ mask);
      const auto result = Parse(damaged);
      ExpectSane(result, catalog_);
      errors += result.ok() ? 0U : 1U;
    }
  }
  EXPECT_GT(errors, bytes.size() / 2);
}

}  // namespace
}  // namespace lockstep
