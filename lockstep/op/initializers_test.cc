#include "lockstep/op/initializers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/op/catalog.h"
#include "lockstep/op/testing/interpreter.h"

namespace lockstep::op {
namespace {

using testing::DoubleTensor;
using testing::Interpreter;

// The initial value that the variable's assignment writes.
DoubleTensor InitialValue(const Graph& graph, const StepInfo& step) {
  Interpreter run(Interpreter::Mode::kKernels, {.step = step});
  const auto initializers = graph.Collection(collection::kInitializers);
  EXPECT_EQ(initializers.size(), 1U);
  const Result<DoubleTensor> value = run.Evaluate(graph, initializers[0].node->inputs[1]);
  EXPECT_TRUE(value.ok()) << value.status().ToString();
  return value.ok() ? *value : DoubleTensor{};
}

DoubleTensor Initialize(std::string_view name, const Shape& shape, const Initializer& initializer,
                        const StepInfo& step = {.seed = 1}) {
  Graph graph(Catalog());
  Builder builder(graph);
  const Value variable = InitializedVariable(builder, name, shape, initializer);
  EXPECT_TRUE(builder.status().ok()) << builder.status().ToString();
  EXPECT_TRUE(variable.valid());
  return InitialValue(graph, step);
}

double Deviation(const std::vector<double>& x) {
  double squares = 0.0;
  for (const double value : x) {
    squares += value * value;
  }
  return std::sqrt(squares / static_cast<double>(x.size()));
}

double Largest(const std::vector<double>& x) {
  double largest = 0.0;
  for (const double value : x) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

TEST(InitializersTest, ConstantsNeedNoRandomness) {
  EXPECT_EQ(Initialize("a", {2, 2}, Zeros()).values, std::vector<double>(4, 0.0));
  EXPECT_EQ(Initialize("a", {3}, Ones()).values, std::vector<double>(3, 1.0));
  EXPECT_EQ(Initialize("a", {}, Constant(-2.5)).values, std::vector<double>{-2.5});
}

TEST(InitializersTest, ValuesDependOnSeedAndVariableNameOnly) {
  const Shape shape = {5, 7};
  const DoubleTensor base = Initialize("w", shape, GlorotUniform());
  EXPECT_EQ(base.values, Initialize("w", shape, GlorotUniform(), {.seed = 1, .step = 9}).values);
  EXPECT_EQ(base.values, Initialize("w", shape, GlorotUniform(), {.seed = 1, .replica = 3}).values);
  EXPECT_NE(base.values, Initialize("v", shape, GlorotUniform()).values);
  EXPECT_NE(base.values, Initialize("w", shape, GlorotUniform(), {.seed = 2}).values);
  EXPECT_NE(base.values, Initialize("w", shape, GlorotUniform(4)).values);
}

TEST(InitializersTest, OtherNodesOfTheProgramDoNotMatter) {
  Graph graph(Catalog());
  Builder builder(graph);
  for (int i = 0; i < 3; ++i) {
    (void)NormalInit(0, 1)(builder, {2}, "other");
  }
  (void)InitializedVariable(builder, "w", {5, 7}, GlorotUniform());
  EXPECT_EQ(InitialValue(graph, {.seed = 1}).values,
            Initialize("w", {5, 7}, GlorotUniform()).values);
}

TEST(InitializersTest, ScopesAreAPartOfTheName) {
  Graph graph(Catalog());
  Builder builder(graph);
  NameScope scope(builder, "dense");
  (void)InitializedVariable(builder, "w", {5, 7}, GlorotUniform());
  EXPECT_NE(InitialValue(graph, {.seed = 1}).values,
            Initialize("w", {5, 7}, GlorotUniform()).values);
}

TEST(InitializersTest, UniformLimitsFollowTheFans) {
  // 3x3 filter, 8 in, 16 out: fans 72 and 144.
  const Shape filter = {3, 3, 8, 16};
  const double glorot = std::sqrt(6.0 / (72 + 144));
  const std::vector<double> g = Initialize("w", filter, GlorotUniform()).values;
  EXPECT_LE(Largest(g), glorot);
  EXPECT_GT(Largest(g), 0.98 * glorot);
  EXPECT_NEAR(Deviation(g), glorot / std::sqrt(3.0), 0.05 * glorot);
  const double he = std::sqrt(6.0 / 72);
  const std::vector<double> h = Initialize("w", filter, HeUniform()).values;
  EXPECT_LE(Largest(h), he);
  EXPECT_GT(Largest(h), 0.98 * he);
}

TEST(InitializersTest, NormalDeviationsFollowTheFans) {
  const Shape matrix = {100, 60};
  const double glorot = std::sqrt(2.0 / 160);
  const double he = std::sqrt(2.0 / 100);
  // The relative standard error of a deviation from 6,000 values is 0.9 %.
  EXPECT_NEAR(Deviation(Initialize("w", matrix, GlorotNormal()).values), glorot, 0.04 * glorot);
  EXPECT_NEAR(Deviation(Initialize("w", matrix, GlorotNormal(0, false)).values), glorot,
              0.04 * glorot);
  EXPECT_NEAR(Deviation(Initialize("w", matrix, HeNormal()).values), he, 0.04 * he);
  EXPECT_LE(Largest(Initialize("w", matrix, HeNormal()).values), 2.0 * he / 0.8796);
  EXPECT_GT(Largest(Initialize("w", matrix, HeNormal(0, false)).values), 2.5 * he);
  EXPECT_LE(Largest(Initialize("w", matrix, TruncatedNormalInit(0.0, 0.5)).values), 1.0);
}

TEST(InitializersTest, UniformStaysInRange) {
  for (const double value : Initialize("w", {1000}, UniformInit(2.0, 3.0)).values) {
    ASSERT_GE(value, 2.0);
    ASSERT_LT(value, 3.0);
  }
}

TEST(InitializersTest, BadParametersAreErrorsOfTheBuilder) {
  Graph graph(Catalog());
  Builder builder(graph);
  EXPECT_FALSE(InitializedVariable(builder, "w", {2}, UniformInit(1.0, 0.0)).valid());
  EXPECT_NE(builder.status().message().find("'low' and 'high'"), std::string::npos)
      << builder.status().ToString();
}

}  // namespace
}  // namespace lockstep::op
