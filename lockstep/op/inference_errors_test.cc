// Attributes and shapes that inference must refuse, with the message that says what is allowed.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/op/catalog.h"
#include "lockstep/op/testing/run_op.h"

namespace lockstep::op {
namespace {

using Ints = std::vector<int64_t>;

struct Refused {
  std::string_view op;
  std::vector<TensorType> inputs;
  AttrMap attrs;
  std::string_view part;
};

TensorType Floats(const Shape& shape) {
  return {DType::kFloat32, shape};
}

TensorType Int64s(const Shape& shape) {
  return {DType::kInt64, shape};
}

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& c : cases) {
    Graph graph(Catalog());
    const Result<Node*> node = testing::MakeNode(graph, c.op, c.inputs, c.attrs);
    ASSERT_FALSE(node.ok()) << c.op << ": " << c.part;
    EXPECT_NE(node.status().message().find(c.part), std::string::npos)
        << c.op << ": " << node.status().ToString() << "\nexpected: " << c.part;
  }
}

TEST(InferenceErrorsTest, Reductions) {
  ExpectRefused({
      {"ReduceSum", {Floats({2, 3})}, {{"axes", Ints{2}}}, "axis 2 is out of range"},
      {"ReduceSum", {Floats({2, 3})}, {{"axes", Ints{INT64_MIN}}}, "out of range"},
      {"ReduceSum", {Floats({2, 3})}, {{"axes", Ints{0, -2}}}, "names axis 0 twice"},
      {"ReduceSum", {{DType::kBool, {2}}}, {}, "is bool"},
      {"ReduceMean", {Int64s({2})}, {}, "is int64, expected float32"},
      {"ArgMax", {Floats({2, 0})}, {{"axis", int64_t{1}}}, "axis 1 is empty"},
      {"ArgMax", {Floats({})}, {}, "out of range for rank 0"},
      {"InTopK", {Floats({2, 3}), Int64s({2})}, {{"k", int64_t{0}}}, "'k' is 0"},
      {"InTopK", {Floats({2, 3}), Int64s({3})}, {{"k", int64_t{1}}}, "[3] labels for [2, 3] rows"},
  });
}

TEST(InferenceErrorsTest, Channels) {
  ExpectRefused({
      {"BiasAdd", {Floats({2, 3}), Floats({4})}, {}, "has 3 channels"},
      {"BiasAdd", {Floats({3}), Floats({3})}, {}, "rank 1, expected 2 or more"},
      {"BiasAdd", {Floats({2, 3}), Floats({3})}, {{"data_format", std::string("nhwc")}}, "'nhwc'"},
      {"BiasAddGrad", {Floats({2, 3})}, {{"data_format", std::string()}}, "'data_format' is ''"},
  });
}

TEST(InferenceErrorsTest, Losses) {
  const TensorType logits = Floats({2, 3});
  const double nan = std::nan("");
  ExpectRefused({
      {"SparseSoftmaxCrossEntropyWithLogits", {logits, Floats({2})}, {}, "expected int32 or int64"},
      {"SparseSoftmaxCrossEntropyWithLogits", {logits, Int64s({3})}, {}, "labels for"},
      {"SparseSoftmaxCrossEntropyWithLogits", {Floats({2, 0}), Int64s({2})}, {}, "one class"},
      {"SparseSoftmaxCrossEntropyWithLogits",
       {logits, Int64s({2})},
       {{"label_smoothing", 1.0}},
       "'label_smoothing' is 1"},
      {"SoftmaxCrossEntropyWithLogits",
       {logits, logits},
       {{"label_smoothing", nan}},
       "'label_smoothing' is nan"},
      {"SoftmaxCrossEntropyWithLogits", {logits, Floats({2, 4})}, {}, "differ in shape"},
      {"SigmoidCrossEntropyWithLogits", {logits, Floats({3})}, {}, "differ in shape"},
      {"Softmax", {logits}, {{"axis", int64_t{-3}}}, "axis -3 is out of range"},
  });
}

TEST(InferenceErrorsTest, Shapes) {
  const TensorType x = Floats({2, 3});
  ExpectRefused({
      {"Transpose", {x}, {{"perm", Ints{0}}}, "has 1 axes, but input 0 has rank 2"},
      {"Transpose", {x}, {{"perm", Ints{1, -1}}}, "names axis 1 twice"},
      {"Concat", {x, Floats({2, 3, 1})}, {{"axis", int64_t{0}}}, "expected rank 2"},
      {"Concat", {x, Floats({3, 3})}, {{"axis", int64_t{1}}}, "differ in more than axis 1"},
      {"Concat", {x, Int64s({2, 3})}, {{"axis", int64_t{1}}}, "differ in type"},
      {"Split", {x}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 1}}}, "sums to 2"},
      {"Split", {x}, {{"axis", int64_t{1}}, {"sizes", Ints{4, -1}}}, "'sizes' has -1"},
      {"Split", {x}, {{"axis", int64_t{1}}, {"sizes", Ints{INT64_MAX, 1}}}, "below 2^63"},
      {"Split", {x}, {{"axis", int64_t{1}}, {"sizes", Ints{}}}, "'sizes' is empty"},
      {"Slice",
       {x},
       {{"begin", Ints{0, 2}}, {"size", Ints{2, 2}}},
       "2 elements from 2 on were asked for of axis 1"},
      {"Slice", {x}, {{"begin", Ints{0, INT64_MAX}}, {"size", Ints{2, -1}}}, "of axis 1"},
      {"Slice", {x}, {{"begin", Ints{-1, 0}}, {"size", Ints{1, 1}}}, "'begin' is -1"},
      {"Slice", {x}, {{"begin", Ints{0, 0}}, {"size", Ints{1, -2}}}, "'size' is -2"},
      {"Slice", {x}, {{"begin", Ints{0}}, {"size", Ints{1}}}, "rank 2"},
      {"Pad", {x}, {{"paddings", Ints{0, 0, -1, 0}}}, "-1 and 0 for axis 1"},
      {"Pad", {x}, {{"paddings", Ints{0, 0, INT64_MAX, 0}}}, "2^60"},
      {"Pad", {x}, {{"paddings", Ints{1 << 30, 0, int64_t{1} << 40, 0}}}, "2^62 elements"},
      {"Pad", {x}, {{"paddings", Ints{1}}}, "expected 4"},
      {"Gather", {x, Floats({2})}, {}, "expected int32 or int64"},
      {"Gather", {Floats({}), Int64s({2})}, {}, "rank 1 or more"},
      {"Gather", {Floats({0, 3}), Int64s({2})}, {}, "no rows to pick"},
      {"ScatterAddRows", {Int64s({2}), Floats({3, 3}), x}, {}, "expected [2, 3]"},
      {"OneHot", {Int64s({2})}, {{"depth", int64_t{0}}}, "'depth' is 0"},
      {"OneHot", {Int64s({1 << 30})}, {{"depth", INT64_MAX}}, "2^62 elements"},
  });
}

TEST(InferenceErrorsTest, RandomOps) {
  const double inf = std::numeric_limits<double>::infinity();
  const Shape shape = {2};
  ExpectRefused({
      {"RandomUniform", {}, {{"shape", shape}, {"low", 1.0}, {"high", 0.0}}, "1 and 0"},
      {"RandomUniform", {}, {{"shape", shape}, {"high", inf}}, "numbers up to 1e37"},
      {"RandomUniform", {}, {{"shape", Shape{-1}}}, "'shape' is [?]"},
      {"RandomNormal", {}, {{"shape", shape}, {"stddev", -1.0}}, "0 or more"},
      {"TruncatedNormal", {}, {{"shape", shape}, {"dtype", DType::kInt32}}, "'dtype' is int32"},
      {"Fill", {}, {{"shape", Shape{-1}}, {"value", 0.0}}, "'shape' is [?]"},
      {"Dropout", {Floats({2})}, {{"rate", 1.0}}, "'rate' is 1"},
      {"Dropout", {Floats({2})}, {{"rate", -0.1}}, "'rate' is -0.1"},
      {"Dropout", {Int64s({2})}, {{"rate", 0.5}}, "is int64"},
  });
}

TEST(InferenceErrorsTest, OptimizerUpdates) {
  const TensorType var = Floats({2});
  const TensorType scalar = Floats({});
  const std::vector<TensorType> momentum = {var, var, scalar, var};
  const std::vector<TensorType> adam = {var, var, var, Int64s({}), scalar, var};
  const double inf = std::numeric_limits<double>::infinity();
  ExpectRefused({
      {"ApplyGradientDescent", {var, scalar, Floats({3})}, {}, "differ in shape"},
      {"ApplyGradientDescent", {var, Floats({1}), var}, {}, "expected rank 0"},
      {"ApplyGradientDescent", {Int64s({2}), scalar, var}, {}, "is int64, expected float32"},
      {"ApplyGradientDescent", {var, scalar, var}, {{"l2", -1.0}}, "'l2' is -1"},
      {"ApplyGradientDescent", {var, scalar, var}, {{"grad_scale", inf}}, "'grad_scale' is inf"},
      {"ApplyMomentum", momentum, {{"momentum", std::nan("")}}, "'momentum' is nan"},
      {"ApplyAdam", adam, {{"beta1", 1.0}}, "'beta1' is 1, allowed is 0 or more and less than 1"},
      {"ApplyAdam", adam, {{"weight_decay", -0.1}}, "'weight_decay' is -0.1"},
      {"ApplyAdam", {var, var, var, Floats({2}), scalar, var}, {}, "expected rank 0"},
      {"ApplyLamb", adam, {{"beta2", 1.5}}, "'beta2' is 1.5"},
      {"ApplyLars", momentum, {{"trust_coefficient", -1.0}}, "'trust_coefficient' is -1"},
      {"ApplyAdagrad", momentum, {{"epsilon", -1.0}}, "'epsilon' is -1"},
      {"ApplyRMSProp", {var, var, var, scalar, var}, {{"decay", 1.0}}, "'decay' is 1"},
      {"SparseApplyGradientDescent",
       {Floats({4, 2}), scalar, Int64s({3}), Floats({3, 1})},
       {},
       "expected [3, 2]"},
      {"SparseApplyGradientDescent",
       {Floats({4, 2}), scalar, Floats({3}), Floats({3, 2})},
       {},
       "expected int32 or int64"},
  });
}

}  // namespace
}  // namespace lockstep::op
