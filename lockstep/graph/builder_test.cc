#include "lockstep/graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

Status InferBuilderSource(InferContext& ctx) {
  ctx.AddOutput(DType::kFloat32, ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

Status InferSame(InferContext& ctx) {
  LS_TRY(ctx.ExpectRank(0, 2));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Value Source(BuildContext ctx, Shape shape) {
  return ctx.Add("Source", {}, {{"shape", shape}});
}

Value Same(BuildContext ctx, Value x) {
  return ctx.Add("Same", {x});
}

// A front-end made of others: errors inside must name the user's line.
Value SameTwice(BuildContext ctx, Value x) {
  return Same(ctx, Same(ctx, x));
}

class BuilderTest : public ::testing::Test {
 protected:
  OpCatalog catalog_{
      {OpDef{.name = "Source", .attrs = {{"shape", AttrType::kShape}}, .infer = InferBuilderSource},
       OpDef{.name = "Same", .min_inputs = 1, .max_inputs = 1, .infer = InferSame}}};
  Graph graph_{catalog_};
  Builder b_{graph_};
};

TEST_F(BuilderTest, ScopesNameAndPlace) {
  Value x;
  {
    NameScope outer(b_, "block");
    DeviceScope device(b_, "/job:ps/task:1");
    NameScope inner(b_, "conv");
    DeviceScope cpu(b_, "cpu:0");
    x = Source(b_, {1, 2});
  }
  EXPECT_EQ(x.node->name, "block/conv/Source");
  EXPECT_EQ(x.node->device, "/job:ps/task:1/device:CPU:0");
  {
    NameScope again(b_, "block");
    EXPECT_EQ(Same(b_, x).node->name, "block_1/Same");
    EXPECT_EQ(Same(b_, x).node->name, "block_1/Same_1");
  }
  EXPECT_EQ(Same(b_, x).node->device, "");
}

TEST_F(BuilderTest, TheFirstErrorIsKeptWithTheCallersLine) {
  const Value x = Source(b_, {3});
  const int line = __LINE__ + 1;
  const Value y = SameTwice(b_, x);
  EXPECT_FALSE(y.valid());
  EXPECT_FALSE(Same(b_, y).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("builder_test.cc:" + std::to_string(line)));
  EXPECT_THAT(b_.status().ToString(), HasSubstr("input 0 has the shape [3], expected rank 2"));
  EXPECT_EQ(graph_.nodes().size(), 1U);
}

TEST_F(BuilderTest, ControlScope) {
  const Value x = Source(b_, {1, 2});
  const Value y = Source(b_, {1, 2});
  Value z;
  {
    ControlScope controls(b_, {y});
    z = Same(b_, x);
  }
  ASSERT_EQ(z.node->control_inputs.size(), 1U);
  EXPECT_EQ(z.node->control_inputs[0], y.node);
  EXPECT_TRUE(Same(b_, x).node->control_inputs.empty());
}

TEST_F(BuilderTest, DeviceFunctionsSeeWhatInnerScopesSay) {
  std::string seen;
  const DeviceScope outer(b_, "/job:ps/replica:1");
  const DeviceScope scope(b_, [&](const NodeSpec& node) -> Result<std::string> {
    seen = node.op + " " + node.name + " " + node.device;
    return std::string("/job:worker");
  });
  const DeviceScope inner(b_, "cpu:0");
  EXPECT_EQ(Source(b_, {1, 2}).node->device, "/job:worker/replica:1");
  EXPECT_EQ(seen, "Source Source /device:CPU:0");
}

TEST_F(BuilderTest, AnErrorOfADeviceFunctionIsTheBuilders) {
  const DeviceScope scope(
      b_, [](const NodeSpec&) -> Result<std::string> { return OutOfRange("no task left"); });
  EXPECT_FALSE(Source(b_, {1}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("no task left [op Source 'Source'; "));
}

TEST_F(BuilderTest, ColocationReplacesOuterScopes) {
  Value x;
  {
    const DeviceScope device(b_, "/job:ps");
    x = Source(b_, {1, 2});
  }
  const DeviceScope outer(b_, "/job:worker/task:1");
  const ColocationScope scope(b_, x);
  const Value y = Same(b_, x);
  EXPECT_EQ(y.node->device, "/job:ps");
  EXPECT_EQ(y.node->colocate_with, "Source");
  const ColocationScope second(b_, y);
  const DeviceScope inner(b_, "cpu:1");
  const Value z = Same(b_, x);
  EXPECT_EQ(z.node->device, "/job:ps/device:CPU:1");
  EXPECT_EQ(z.node->colocate_with, "Source") << "the first of the chain";
}

TEST_F(BuilderTest, MalformedDeviceIsAnError) {
  DeviceScope device(b_, "/job:");
  EXPECT_THAT(b_.status().ToString(), HasSubstr("device name '/job:'"));
}

}  // namespace
}  // namespace lockstep
