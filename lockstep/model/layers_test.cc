#include "lockstep/model/layers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/interpreter.h"

namespace lockstep::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LayersTest : public ::testing::Test {
 protected:
  ModelContext Context(bool training = true, Value replica_weight = {}) {
    return {.builder = b_, .training = training, .replica_weight = replica_weight};
  }

  Value Input(const Shape& shape) { return op::Placeholder(b_, DType::kFloat32, shape); }

  Value Floats(const Shape& shape, const std::vector<float>& values) {
    return op::Const(b_, Tensor::From<float>(shape, values));
  }

  // Runs what gives the variables their initial values, once.
  void Initialize() {
    ASSERT_TRUE(b_.status().ok()) << b_.status().ToString();
    for (const Value& assign : graph_.Collection(collection::kInitializers)) {
      if (initialized_.insert(assign.node).second) {
        ASSERT_TRUE(interpreter_.Run(graph_, *assign.node).ok());
      }
    }
  }

  std::vector<double> Run(Value value) {
    Initialize();
    const auto result = interpreter_.Evaluate(graph_, value);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? result->values : std::vector<double>();
  }

  void RunUpdates() {
    Initialize();
    for (const Value& update : graph_.Collection(collection::kUpdateOps)) {
      const Status status = interpreter_.Run(graph_, *update.node);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  void Write(const std::string& name, const std::vector<double>& values) {
    Initialize();
    const Value variable = graph_.FindValue(name).value();
    ASSERT_EQ(static_cast<int64_t>(values.size()), variable.shape().num_elements());
    interpreter_.Feed(variable, {variable.dtype(), variable.shape(), values});
  }

  std::vector<double> Read(const std::string& name) { return Run(graph_.FindValue(name).value()); }

  std::string Error() { return b_.status().ToString(); }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
  op::testing::Interpreter interpreter_{op::testing::Interpreter::Mode::kKernels};
  std::set<const Node*> initialized_;
};

TEST_F(LayersTest, DenseIsXTimesKernelPlusBiasOfTheFlattenedInput) {
  const Value x = Floats(Shape{1, 2, 1, 2}, {1, 2, 3, 4});
  const Value y = Dense(Context(), "dense", x, {.units = 2, .activation = Activation::kRelu});
  Write("dense/kernel", {1, 0, 1, 0, 1, 0, 1, -1});
  Write("dense/bias", {0.5, 3});
  EXPECT_THAT(Run(y), ElementsAre(10.5, 0));
}

TEST_F(LayersTest, DenseStartsWithGlorotUniformAndZeros) {
  Dense(Context(), "dense", Input(Shape{-1, 300}), {.units = 100});
  const double limit = std::sqrt(6.0 / 400);
  double most = 0;
  for (const double w : Read("dense/kernel")) {
    most = std::max(most, std::abs(w));
  }
  EXPECT_LE(most, limit);
  EXPECT_GT(most, 0.99 * limit);
  EXPECT_THAT(Read("dense/bias"), ::testing::Each(0.0));
}

TEST_F(LayersTest, ConvSumsOverItsWindow) {
  const Value x = Floats(Shape{1, 2, 2, 1}, {1, 2, 3, 4});
  const Value y = Conv(Context(), "conv", x, {.filters = 1});
  Write("conv/filter", std::vector<double>(9, 1));
  Write("conv/bias", {0.5});
  EXPECT_THAT(Run(y), ElementsAre(10.5, 10.5, 10.5, 10.5));
}

TEST_F(LayersTest, ConvOptionsReachTheOp) {
  const Value x = Input(Shape{-1, 9, 9, 4});
  EXPECT_EQ(Conv(Context(), "a", x, {.filters = 6, .strides = {2, 3}}).shape(),
            (Shape{-1, 5, 3, 6}));
  EXPECT_EQ(
      Conv(Context(), "b", x, {.filters = 6, .padding = "VALID", .dilations = {2, 1}}).shape(),
      (Shape{-1, 5, 7, 6}));
  EXPECT_EQ(Conv(Context(), "c", x,
                 {.filters = 6, .padding = "EXPLICIT", .paddings = {0, 1, 2, 3}, .groups = 2})
                .shape(),
            (Shape{-1, 8, 12, 6}));
  ASSERT_NE(graph_.FindNode("c/filter"), nullptr);
  EXPECT_EQ(graph_.FindNode("c/filter")->outputs[0].shape, (Shape{3, 3, 2, 6}));
  Conv(Context(), "d", x, {.filters = 6, .bias = false});
  EXPECT_EQ(graph_.FindNode("d/bias"), nullptr);
  EXPECT_TRUE(b_.status().ok()) << Error();
}

TEST_F(LayersTest, GroupsMustDivideTheChannels) {
  EXPECT_FALSE(
      Conv(Context(), "conv", Input(Shape{-1, 5, 5, 4}), {.filters = 6, .groups = 3}).valid());
  EXPECT_THAT(Error(), HasSubstr("layer 'conv': 3 groups do not divide the 4 channels"));
  EXPECT_THAT(Error(), HasSubstr("layers_test.cc:"));
}

TEST_F(LayersTest, AKernelHasTwoSides) {
  EXPECT_FALSE(
      Conv(Context(), "conv", Input(Shape{-1, 5, 5, 4}), {.filters = 6, .kernel = {3}}).valid());
  EXPECT_THAT(Error(), HasSubstr("layer 'conv': a kernel of 1 numbers"));
}

TEST_F(LayersTest, NegativeUnitsAreAnErrorThatNamesTheLayer) {
  EXPECT_FALSE(Dense(Context(), "dense", Input(Shape{-1, 5}), {.units = -1}).valid());
  EXPECT_THAT(Error(), HasSubstr("dense"));
}

TEST_F(LayersTest, UnknownChannelsAreAnErrorThatNamesTheLayer) {
  EXPECT_FALSE(Dense(Context(), "first", Input(Shape{-1, -1}), {.units = 2}).valid());
  EXPECT_THAT(Error(), HasSubstr("layer 'first'"));
  // The first error stays.
  EXPECT_FALSE(Dense(Context(), "second", Input(Shape{3}), {.units = 2}).valid());
  EXPECT_THAT(Error(), Not(HasSubstr("second")));
}

TEST_F(LayersTest, ErrorsOfTheirOpsNameTheCallersLine) {
  const Value x = Input(Shape{-1, 4, 4, 2});
  const int line = __LINE__ + 1;
  Conv(Context(), "conv", x, {.filters = 2, .strides = {0, 1}});
  EXPECT_THAT(Error(), HasSubstr(fmt::format("layers_test.cc:{}", line)));
  EXPECT_THAT(Error(), Not(HasSubstr("layers.cc")));
}

TEST_F(LayersTest, AnInputThatIsNoValueIsAnError) {
  Dense(Context(), "dense", Value(), {.units = 2});
  EXPECT_THAT(Error(), HasSubstr("layer 'dense': its input is not a value of the graph"));
}

TEST_F(LayersTest, WithoutAnInputNothingIsAdded) {
  const size_t before = graph_.nodes().size();
  EXPECT_FALSE(Dense(Context(), "a", {}, {.units = 2}).valid());
  EXPECT_FALSE(Conv(Context(), "b", {}, {.filters = 2}).valid());
  EXPECT_FALSE(BatchNormalization(Context(), "c", {}).valid());
  EXPECT_FALSE(DropoutLayer(Context(), "d", {}, 0.5).valid());
  EXPECT_EQ(graph_.nodes().size(), before);
}

// Two channels: 1 2 3 6 (mean 3, variance 3.5, unbiased 14/3) and 10 10 10 10.
TEST_F(LayersTest, BatchNormNormalisesAndItsStatisticsMove) {
  const Value x = Floats(Shape{4, 2}, {1, 10, 2, 10, 3, 10, 6, 10});
  const Value y = BatchNormalization(Context(), "norm", x, {.momentum = 0.75, .epsilon = 0.5});
  const std::vector<double> out = Run(y);
  for (size_t i = 0; i < 4; ++i) {
    const double value = std::vector<double>{1, 2, 3, 6}[i];
    EXPECT_NEAR(out[2 * i], (value - 3) / 2, 1e-5);
    EXPECT_NEAR(out[2 * i + 1], 0, 1e-5);
  }
  RunUpdates();
  EXPECT_THAT(Read("norm/moving_mean"), ElementsAre(0.75, 2.5));
  const std::vector<double> variance = Read("norm/moving_variance");
  EXPECT_NEAR(variance[0], 0.75 + 0.25 * 14 / 3, 1e-5);
  EXPECT_NEAR(variance[1], 0.75, 1e-5);
}

TEST_F(LayersTest, BatchNormWeighsTheStatisticsOfItsReplica) {
  const Value x = Floats(Shape{2, 1}, {2, 6});
  // A quarter of the global batch.
  BatchNormalization(Context(true, op::Scalar(b_, 0.25)), "norm", x, {.momentum = 0.5});
  RunUpdates();
  EXPECT_THAT(Read("norm/moving_mean"), ElementsAre(0.5 * 0.25 * 4));
  EXPECT_THAT(Read("norm/moving_variance"), ElementsAre(0.5 + 0.5 * 0.25 * 8));
}

TEST_F(LayersTest, BatchNormOfOneSampleStaysFinite) {
  const Value y = BatchNormalization(Context(), "norm", Floats(Shape{1, 1}, {7}));
  EXPECT_THAT(Run(y), ElementsAre(0));
  RunUpdates();
  EXPECT_THAT(Read("norm/moving_mean"), ElementsAre(::testing::DoubleNear(0.07, 1e-6)));
  EXPECT_THAT(Read("norm/moving_variance"), ElementsAre(::testing::DoubleNear(0.99, 1e-6)));
}

// A replica that got no samples counts with weight 0.
TEST_F(LayersTest, BatchNormOfNoSamplesContributesNothing) {
  const Value x = Floats(Shape{0, 2}, {});
  BatchNormalization(Context(true, op::Scalar(b_, 0)), "norm", x, {.momentum = 0.5});
  RunUpdates();
  EXPECT_THAT(Read("norm/moving_mean"), ElementsAre(0, 0));
  EXPECT_THAT(Read("norm/moving_variance"), ElementsAre(0.5, 0.5));
}

TEST_F(LayersTest, BatchNormOutsideOfTrainingUsesTheRunningStatistics) {
  const Value x = Floats(Shape{2, 1}, {4, 8});
  const Value y = BatchNormalization(Context(false), "norm", x, {.epsilon = 1});
  Write("norm/moving_mean", {2});
  Write("norm/moving_variance", {3});
  Write("norm/scale", {10});
  Write("norm/offset", {1});
  EXPECT_THAT(Run(y), ElementsAre(11, 31));
  EXPECT_TRUE(graph_.Collection(collection::kUpdateOps).empty());
}

// Rows with the means 2 and 5 and the variances 1 and 9.
TEST_F(LayersTest, LayerNormNormalisesEachRow) {
  const Value x = Floats(Shape{2, 2}, {1, 3, 8, 2});
  const Value y = LayerNormalization(Context(), "norm", x, 1e-12);
  Write("norm/scale", {2, 10});
  Write("norm/offset", {0, 1});
  EXPECT_THAT(Run(y), ElementsAre(-2, 11, 2, -9));
}

TEST_F(LayersTest, InBfloat16TheVariablesStayFloat32) {
  ModelContext context = Context();
  context.compute = DType::kBFloat16;
  Value x = Conv(context, "conv", Input(Shape{-1, 4, 4, 2}), {.filters = 3});
  EXPECT_EQ(x.dtype(), DType::kBFloat16);
  x = BatchNormalization(context, "norm", x);
  x = Dense(context, "dense", x, {.units = 2, .activation = Activation::kRelu});
  EXPECT_EQ(x.dtype(), DType::kBFloat16);
  LayerNormalization(context, "rows", x);
  ASSERT_TRUE(b_.status().ok()) << Error();
  for (const Value& variable : graph_.Collection(collection::kVariables)) {
    EXPECT_EQ(variable.dtype(), DType::kFloat32) << variable.name();
  }
}

TEST_F(LayersTest, DropoutIsTheIdentityOutsideOfTraining) {
  const Value x = Input(Shape{-1, 5});
  EXPECT_EQ(DropoutLayer(Context(false), "dropout", x, 0.5), x);
  EXPECT_NE(DropoutLayer(Context(true), "dropout", x, 0.5), x);
}

TEST_F(LayersTest, DropoutDropsAndScales) {
  const Value x = Floats(Shape{1000}, std::vector<float>(1000, 3));
  int dropped = 0;
  for (const double y : Run(DropoutLayer(Context(true), "dropout", x, 0.25))) {
    dropped += y == 0 ? 1 : 0;
    EXPECT_TRUE(y == 0 || std::abs(y - 4) < 1e-6) << y;
  }
  // 250 expected, standard deviation 14.
  EXPECT_NEAR(dropped, 250, 5 * 14);
}

TEST_F(LayersTest, ActivationsByName) {
  const Value x = Floats(Shape{2}, {-1, 2});
  const auto run = [&](std::string_view name) {
    return Run(Activate(Context(), x, ParseActivation(name).value()));
  };
  const auto near = [](double a, double b) {
    return ElementsAre(::testing::DoubleNear(a, 1e-6), ::testing::DoubleNear(b, 1e-6));
  };
  EXPECT_THAT(run("none"), near(-1, 2));
  EXPECT_THAT(run("relu"), near(0, 2));
  EXPECT_THAT(run("leaky_relu"), near(-0.2, 2));
  EXPECT_THAT(run("elu"), near(std::exp(-1) - 1, 2));
  // x times the normal distribution's share below x.
  EXPECT_THAT(run("gelu"), near(-0.158655254, 1.954499736));
  EXPECT_THAT(run("silu"), near(-1 / (1 + std::exp(1)), 2 / (1 + std::exp(-2))));
  EXPECT_THAT(run("sigmoid"), near(1 / (1 + std::exp(1)), 1 / (1 + std::exp(-2))));
  EXPECT_THAT(run("tanh"), near(std::tanh(-1), std::tanh(2)));
  EXPECT_THAT(run("softplus"), near(std::log1p(std::exp(-1)), std::log1p(std::exp(2))));
}

TEST_F(LayersTest, AnUnknownActivationListsThoseThereAre) {
  const Status status = ParseActivation("rely").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("unknown activation 'rely': allowed are none, relu"));
}

TEST_F(LayersTest, LayersOfOneNameGetScopesOfTheirOwn) {
  const Value x = Input(Shape{-1, 3});
  Dense(Context(), "dense", x, {.units = 3});
  Dense(Context(), "dense", x, {.units = 3});
  EXPECT_NE(graph_.FindNode("dense/kernel"), nullptr);
  EXPECT_NE(graph_.FindNode("dense_1/kernel"), nullptr);
}

}  // namespace
}  // namespace lockstep::model
