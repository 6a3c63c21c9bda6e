// A small catalog and a graph that uses everything a graph can have: every kind of attribute, nodes
// with no, one and several outputs, variables, control inputs, devices, source lines, collections.
// For tests of what reads, writes and rewrites graphs.
#pragma once

#include <limits>

#include "lockstep/graph/builder.h"
#include "lockstep/graph/op_def.h"

namespace lockstep::testing {

inline Status InferInput(InferContext& ctx) {
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

inline Status InferConst(InferContext& ctx) {
  const auto& value = ctx.attrs().Get<Tensor>("value");
  ctx.AddOutput(value.dtype(), value.shape());
  return OkStatus();
}

inline Status InferVariable(InferContext& ctx) {
  ctx.AddVariableOutput(DType::kFloat32, ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

inline Status InferAssign(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectSameShape(0, 1));
  ctx.AddVariableOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

inline Status InferSum(InferContext& ctx) {
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
    LS_TRY(ctx.ExpectSameShape(0, i));
  }
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

// The input twice.
inline Status InferPair(InferContext& ctx) {
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

inline Status InferNothing(InferContext& /*ctx*/) {
  return OkStatus();
}

inline std::vector<OpDef> SampleOps() {
  return {
      {.name = "TestInput",
       .attrs = {{"dtype", AttrType::kDType, DType::kFloat32}, {"shape", AttrType::kShape}},
       .infer = InferInput},
      {.name = "TestConst", .attrs = {{"value", AttrType::kTensor}}, .infer = InferConst},
      {.name = "TestVariable", .attrs = {{"shape", AttrType::kShape}}, .infer = InferVariable},
      {.name = "TestAssign",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = InferAssign,
       .written_inputs = 1,
       .initialized_inputs = 1,
       .stateful = true},
      {.name = "TestSum",
       .min_inputs = 1,
       .max_inputs = OpDef::kVariadic,
       .attrs = {{"scale", AttrType::kFloat, 1.0}},
       .infer = InferSum},
      {.name = "TestPair", .min_inputs = 1, .max_inputs = 1, .infer = InferPair},
      {.name = "TestNothing",
       .attrs = {{"flag", AttrType::kBool, false},
                 {"count", AttrType::kInt, int64_t{0}},
                 {"label", AttrType::kString, std::string()},
                 {"axes", AttrType::kInts, std::vector<int64_t>()}},
       .infer = InferNothing,
       .stateful = true},
      {.name = "TestFused", .min_inputs = 1, .max_inputs = 1, .infer = InferSum, .internal = true}};
}

// Adds the nodes below to a graph whose catalog has SampleOps(); status() of the builder must be OK
// afterwards.
inline void BuildSampleGraph(Builder& builder) {
  const BuildContext ctx(builder, {"model.cc", 12});
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Value x = ctx.Add("TestInput", {}, {{"shape", Shape{-1, 3}}}, "x");
  Value pair;
  {
    const NameScope scope(builder, "layer");
    const DeviceScope device(builder, "/job:worker/task:1/cpu:0");
    const Value w = ctx.Add("TestVariable", {}, {{"shape", Shape{2, 3}}}, "w");
    const Value c = ctx.Add(
        "TestConst", {},
        {{"value", *Tensor::From<float>(Shape{2, 3}, {0.5F, -0.0F, 1e-45F, 3e38F, -1, 7})}}, "c");
    const Value init = ctx.Add("TestAssign", {w, c}, {}, "init");
    builder.graph().AddToCollection(collection::kVariables, w);
    builder.graph().AddToCollection(collection::kInitializers, init);
    pair = ctx.Add("TestPair", {ctx.Add("TestSum", {w, c, w}, {{"scale", -0.1}})});
  }
  {
    const ControlScope controls(builder, {pair, x});
    ctx.AddNode("TestNothing", {},
                {{"flag", true},
                 {"count", kMin},
                 {"label", std::string("gr\xc3\xbc\xc3\x9f 'e\" \\ ^:")},
                 {"axes", std::vector<int64_t>{0, -1, kMin}}},
                "done");
  }
  Node* second = pair.valid() ? pair.node : nullptr;
  const Value last = ctx.Add("TestSum", {Value{second, 1}, Value{second, 0}}, {}, "last");
  ctx.Add("TestConst", {}, {{"value", *Tensor::From<bool>(Shape{2}, {true, false})}}, "mask");
  ctx.Add("TestConst", {}, {{"value", *Tensor::Scalar<int64_t>(kMin)}}, "scalar");
  ctx.Add("TestConst", {}, {{"value", *Tensor::Zeros(DType::kBFloat16, Shape{0, 4})}}, "empty");
  ctx.Add("TestInput", {}, {{"dtype", DType::kUInt8}, {"shape", Shape{}}}, "bytes");
  if (builder.status().ok()) {
    builder.graph().AddToCollection("losses", last);
    builder.graph().AddToCollection("losses", Value{second, 1});
    builder.graph().AddToCollection("losses", last);
    builder.graph().AddToCollection(collection::kUpdateOps,
                                    Value{builder.graph().FindNode("done"), 0});
  }
}

}  // namespace lockstep::testing
