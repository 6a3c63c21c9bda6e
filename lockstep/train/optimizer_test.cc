#include "lockstep/train/optimizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "lockstep/exec/session.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/initializers.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Vector = std::vector<double>;

constexpr int kUpdates = 3;
// A rate that changes, as schedules make it.
constexpr double kRates[kUpdates] = {0.1, 0.05, 0.2};

// An [optimizer] section as users write it.
OptimizerConfig ParseOptimizer(const std::string& lines) {
  const std::string text =
      "[model]\nname = 'mlp'\n[data]\nsource = 'mnist'\npath = 'x'\n[optimizer]\n"
      "learning_rate = 0.1\n" +
      lines;
  const Result<Config> config = ParseConfig(text, "optimizer.toml", {});
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? config->optimizer : OptimizerConfig();
}

// A variable with the gradients of three updates.
struct Case {
  std::string name;
  Vector initial;
  Vector gradients[kUpdates];
};

std::vector<Case> Cases() {
  return {{"dense/kernel", {1, -2, 3, 0.5}, {{1, 0.5, -2, 0}, {-1, 0.25, 1, 0}, {2, 1, 3, 0}}},
          {"dense/bias", {0.5, -1}, {{0.1, -3}, {0.2, 2}, {0.3, 0.125}}}};
}

Tensor OptimizerTensor(const Shape& shape, const Vector& values) {
  return Tensor::From<float>(shape, std::vector<float>(values.begin(), values.end())).value();
}

Tensor Scalar(double value) {
  return Tensor::Scalar(static_cast<float>(value)).value();
}

// All variables by name, slots included, after the updates of Cases().
std::map<std::string, Vector> Train(const OptimizerConfig& config) {
  Graph graph(op::Catalog());
  Builder b(graph);
  const Value rate = op::Placeholder(b, DType::kFloat32, Shape{}, "rate");
  const Value step = op::Placeholder(b, DType::kFloat32, Shape{}, "step");
  std::vector<GradientAndVariable> pairs;
  for (const Case& c : Cases()) {
    const Shape shape{static_cast<int64_t>(c.initial.size())};
    const Value variable = op::Variable(b, c.name, op::Const(b, OptimizerTensor(shape, c.initial)));
    pairs.push_back({{op::Placeholder(b, DType::kFloat32, shape), {}, {}}, variable});
  }
  Node* train = ApplyGradients(b, config, pairs, rate, step);
  EXPECT_TRUE(b.status().ok()) << b.status().ToString();
  std::map<std::string, Vector> result;
  if (train == nullptr) {
    return result;
  }
  const std::unique_ptr<exec::Session> session = exec::Session::Create(graph, {}).value();
  EXPECT_TRUE(session->Initialize().ok());
  for (int i = 0; i < kUpdates; ++i) {
    exec::Session::FeedList feeds = {{rate, Scalar(kRates[i])}, {step, Scalar(i + 1)}};
    for (size_t v = 0; v < pairs.size(); ++v) {
      const Value& gradient = pairs[v].gradient.dense;
      feeds.emplace_back(gradient, OptimizerTensor(gradient.shape(), Cases()[v].gradients[i]));
    }
    const Result<std::vector<Tensor>> run = session->Run(feeds, {}, {train});
    EXPECT_TRUE(run.ok()) << run.status().ToString();
  }
  for (const exec::Variable* variable : session->variables().All()) {
    result[variable->name] = session->variables().Read(variable->name).value().ToDoubles();
  }
  return result;
}

// One update of a whole variable, in double. `slots` start at zero.
struct State {
  Vector w;
  Vector a;
  Vector b;
  Vector c;
};

using Rule = std::function<void(State& s, const Vector& g, double lr, int t)>;

Vector Expected(const Case& c, const Rule& rule) {
  const Vector zeros(c.initial.size(), 0.0);
  State state = {c.initial, zeros, zeros, zeros};
  for (int i = 0; i < kUpdates; ++i) {
    rule(state, c.gradients[i], kRates[i], i + 1);
  }
  return state.w;
}

void ExpectClose(const Vector& got, const Vector& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    // Some roundings of float32.
    EXPECT_NEAR(got[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << what << " " << i;
  }
}

// `rule` for both variables.
void ExpectRule(const std::string& lines, const Rule& rule) {
  std::map<std::string, Vector> got = Train(ParseOptimizer(lines));
  for (const Case& c : Cases()) {
    ExpectClose(got[c.name], Expected(c, rule), lines + " " + c.name);
  }
}

Rule Elementwise(std::function<void(State& s, size_t i, double g, double lr, int t)> update) {
  return [update](State& s, const Vector& g, double lr, int t) {
    for (size_t i = 0; i < g.size(); ++i) {
      update(s, i, g[i], lr, t);
    }
  };
}

double Norm(const Vector& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

Rule SgdRule(double l2) {
  return Elementwise(
      [l2](State& s, size_t i, double g, double lr, int) { s.w[i] -= lr * (g + l2 * s.w[i]); });
}

Rule AdamRule(double beta1, double beta2, double epsilon, double weight_decay) {
  return Elementwise([=](State& s, size_t i, double g, double lr, int t) {
    s.a[i] = beta1 * s.a[i] + (1 - beta1) * g;
    s.b[i] = beta2 * s.b[i] + (1 - beta2) * g * g;
    const double rate = lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    s.w[i] -= lr * weight_decay * s.w[i] + rate * s.a[i] / (std::sqrt(s.b[i]) + epsilon);
  });
}

TEST(OptimizerTest, GradientDescent) {
  ExpectRule("name = 'sgd'", SgdRule(0));
  ExpectRule("", SgdRule(0));
  ExpectRule("name = 'sgd'\nl2 = 0.5", SgdRule(0.5));
}

TEST(OptimizerTest, Momentum) {
  const auto rule = [](double momentum, bool nesterov) {
    return Elementwise([=](State& s, size_t i, double g, double lr, int) {
      s.a[i] = momentum * s.a[i] + g;
      s.w[i] -= lr * (nesterov ? g + momentum * s.a[i] : s.a[i]);
    });
  };
  ExpectRule("name = 'momentum'", rule(0.9, false));
  ExpectRule("name = 'momentum'\nmomentum = 0.5", rule(0.5, false));
  ExpectRule("name = 'momentum'\nmomentum = 0.5\nnesterov = true", rule(0.5, true));
  ExpectRule("name = 'nesterov'", rule(0.9, true));
}

TEST(OptimizerTest, AdamAndAdamW) {
  ExpectRule("name = 'adam'", AdamRule(0.9, 0.999, 1e-7, 0));
  ExpectRule("name = 'adam'\nbeta1 = 0.5\nbeta2 = 0.75\nepsilon = 0.25",
             AdamRule(0.5, 0.75, 0.25, 0));
  ExpectRule("name = 'adamw'\nweight_decay = 0.5", AdamRule(0.9, 0.999, 1e-7, 0.5));
}

TEST(OptimizerTest, RmsProp) {
  const auto rule = [](double rho, double momentum, double epsilon, bool centered) {
    return Elementwise([=](State& s, size_t i, double g, double lr, int) {
      s.a[i] = rho * s.a[i] + (1 - rho) * g * g;
      s.c[i] = rho * s.c[i] + (1 - rho) * g;
      const double variance = s.a[i] - (centered ? s.c[i] * s.c[i] : 0.0);
      s.b[i] = momentum * s.b[i] + lr * g / std::sqrt(variance + epsilon);
      s.w[i] -= s.b[i];
    });
  };
  ExpectRule("name = 'rmsprop'", rule(0.9, 0, 1e-7, false));
  ExpectRule("name = 'rmsprop'\nrho = 0.5\nmomentum = 0.25\nepsilon = 0.5",
             rule(0.5, 0.25, 0.5, false));
  ExpectRule("name = 'rmsprop'\nrho = 0.5\nepsilon = 0.5\ncentered = true",
             rule(0.5, 0, 0.5, true));
}

TEST(OptimizerTest, Adagrad) {
  const auto rule = [](double initial) {
    return Elementwise([=](State& s, size_t i, double g, double lr, int) {
      s.a[i] += g * g;
      s.w[i] -= lr * g / (std::sqrt(initial + s.a[i]) + 1e-7);
    });
  };
  ExpectRule("name = 'adagrad'", rule(0.1));
  ExpectRule("name = 'adagrad'\ninitial_accumulator = 4", rule(4));
}

TEST(OptimizerTest, Lars) {
  ExpectRule("name = 'lars'\nmomentum = 0.5\nweight_decay = 0.25\ntrust_coefficient = 0.5",
             [](State& s, const Vector& g, double lr, int) {
               const double local = 0.5 * Norm(s.w) / (Norm(g) + 0.25 * Norm(s.w) + 1e-7);
               for (size_t i = 0; i < g.size(); ++i) {
                 s.a[i] = 0.5 * s.a[i] + lr * local * (g[i] + 0.25 * s.w[i]);
                 s.w[i] -= s.a[i];
               }
             });
}

TEST(OptimizerTest, Lamb) {
  ExpectRule("name = 'lamb'\nweight_decay = 0.25", [](State& s, const Vector& g, double lr, int t) {
    Vector u(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      s.a[i] = 0.9 * s.a[i] + 0.1 * g[i];
      s.b[i] = 0.999 * s.b[i] + 0.001 * g[i] * g[i];
      const double mean = s.a[i] / (1 - std::pow(0.9, t));
      const double variance = s.b[i] / (1 - std::pow(0.999, t));
      u[i] = mean / (std::sqrt(variance) + 1e-6) + 0.25 * s.w[i];
    }
    const double length = lr * Norm(s.w) / Norm(u);
    for (size_t i = 0; i < g.size(); ++i) {
      s.w[i] -= length * u[i];
    }
  });
}

TEST(OptimizerTest, SlotsAreNamedBehindTheirVariable) {
  const auto names = [](const std::string& lines) {
    std::vector<std::string> slots;
    for (const auto& [name, value] : Train(ParseOptimizer(lines))) {
      if (name.rfind("dense/bias/", 0) == 0) {
        slots.push_back(name.substr(11));
      }
    }
    return slots;
  };
  EXPECT_THAT(names("name = 'sgd'"), IsEmpty());
  EXPECT_THAT(names("name = 'momentum'"), ElementsAre("momentum"));
  EXPECT_THAT(names("name = 'adam'"), ElementsAre("adam_m", "adam_v"));
  EXPECT_THAT(names("name = 'rmsprop'\ncentered = true"),
              ElementsAre("rmsprop_mg", "rmsprop_momentum", "rmsprop_ms"));
  EXPECT_THAT(names("name = 'adagrad'"), ElementsAre("adagrad_accumulator"));
  EXPECT_THAT(names("name = 'lars'"), ElementsAre("momentum"));
  EXPECT_THAT(names("name = 'lamb'"), ElementsAre("lamb_m", "lamb_v"));
}

TEST(OptimizerTest, ExcludedVariablesDoNotDecay) {
  const std::vector<Case> cases = Cases();
  std::map<std::string, Vector> got = Train(
      ParseOptimizer("name = 'adamw'\nweight_decay = 0.5\ndecay_exclude = ['*/bias', 'other']"));
  ExpectClose(got["dense/kernel"], Expected(cases[0], AdamRule(0.9, 0.999, 1e-7, 0.5)), "kernel");
  ExpectClose(got["dense/bias"], Expected(cases[1], AdamRule(0.9, 0.999, 1e-7, 0)), "bias");
  got = Train(ParseOptimizer("l2 = 0.5\ndecay_exclude = ['*kernel']"));
  ExpectClose(got["dense/kernel"], Expected(cases[0], SgdRule(0)), "kernel");
  ExpectClose(got["dense/bias"], Expected(cases[1], SgdRule(0.5)), "bias");
}

TEST(OptimizerTest, APatternThatExcludesNothingIsAnError) {
  const std::vector<std::string> names = {"conv/bias", "conv/filter", "dense/bias", "dense/kernel"};
  OptimizerConfig config;
  EXPECT_TRUE(CheckDecayExclude(config, names).ok());
  config.decay_exclude = {"*bias", "conv/*"};
  EXPECT_TRUE(CheckDecayExclude(config, names).ok());
  config.decay_exclude = {"*bias", "*bais"};
  EXPECT_EQ(CheckDecayExclude(config, names).ToString(),
            "INVALID_ARGUMENT: optimizer.decay_exclude: the pattern '*bais' matches nothing: the "
            "model has 4 trainable variables, such as conv/bias, conv/filter, dense/bias");
  EXPECT_FALSE(CheckDecayExclude(config, {}).ok());
}

// Whatever scopes say when the optimizer is built: a slot is used with its variable only.
TEST(OptimizerTest, SlotsAreWhereTheirVariableIs) {
  for (const char* name : {"momentum", "adam", "rmsprop", "adagrad", "lars", "lamb"}) {
    Graph graph(op::Catalog());
    Builder b(graph);
    std::vector<GradientAndVariable> pairs;
    for (const char* device : {"/job:ps/task:0", "/job:ps/task:1/device:cpu:0"}) {
      const DeviceScope scope(b, device);
      const Value variable = op::Variable(b, fmt::format("w{}", pairs.size()),
                                          op::Const(b, OptimizerTensor(Shape{2}, {1, 2})));
      pairs.push_back({{op::Placeholder(b, DType::kFloat32, Shape{2}), {}, {}}, variable});
    }
    const DeviceScope worker(b, "/job:worker/task:0");
    OptimizerConfig config = ParseOptimizer(fmt::format("name = '{}'", name));
    const Value rate = op::Placeholder(b, DType::kFloat32, Shape{}, "rate");
    const Value step = op::Placeholder(b, DType::kFloat32, Shape{}, "step");
    ASSERT_NE(ApplyGradients(b, config, pairs, rate, step), nullptr) << b.status().ToString();
    int slots = 0;
    for (const Value& slot : graph.Collection(collection::kVariables)) {
      for (const GradientAndVariable& pair : pairs) {
        const Node& variable = *pair.variable.node;
        if (slot.node->name.rfind(variable.name + "/", 0) == 0) {
          ++slots;
          EXPECT_EQ(slot.node->device, variable.device) << slot.node->name;
          EXPECT_EQ(slot.node->colocate_with, variable.name);
        }
      }
    }
    EXPECT_GE(slots, 2) << name;
  }
}

TEST(OptimizerTest, PatternsOfNames) {
  const auto excluded = [](const std::string& pattern, std::string_view name) {
    OptimizerConfig config;
    config.decay_exclude = {pattern};
    return IsExcludedFromDecay(config, name);
  };
  EXPECT_TRUE(excluded("a/bias", "a/bias"));
  EXPECT_FALSE(excluded("a/bias", "a/bias2"));
  EXPECT_FALSE(excluded("bias", "a/bias"));
  EXPECT_TRUE(excluded("*", ""));
  EXPECT_TRUE(excluded("*", "a/b"));
  EXPECT_TRUE(excluded("*bias", "layer/bias"));
  EXPECT_TRUE(excluded("*norm*", "stem/norm/scale"));
  EXPECT_FALSE(excluded("*norm*", "stem/conv/filter"));
  EXPECT_TRUE(excluded("conv?/filter", "conv1/filter"));
  EXPECT_FALSE(excluded("conv?/filter", "conv/filter"));
  EXPECT_FALSE(excluded("conv?/filter", "conv12/filter"));
  EXPECT_TRUE(excluded("a*b*c", "a_b_b_c"));
  EXPECT_FALSE(excluded("a*b*c", "a_b_b_"));
  EXPECT_TRUE(excluded("**a?*", "xxab"));
  EXPECT_FALSE(excluded("", "a"));
  // Exponential for matchers that try every split.
  EXPECT_FALSE(excluded("*a*a*a*a*a*a*a*a*a*a*b", std::string(4000, 'a')));
}

class GradientsTest : public ::testing::Test {
 protected:
  GradientAndVariable Pair(std::string_view name, const Shape& shape, const Vector& gradient) {
    return {{op::Const(b_, OptimizerTensor(shape, gradient)), {}, {}}, Variable(name, shape)};
  }

  Value Variable(std::string_view name, const Shape& shape) {
    return op::InitializedVariable(b_, name, shape, op::Zeros());
  }

  // The dense values of all gradients, one after another.
  std::vector<Vector> Clipped(const std::vector<GradientAndVariable>& pairs,
                              const ClipOptions& options) {
    std::vector<Value> fetches;
    for (const GradientAndVariable& pair : ClipGradients(b_, pairs, options)) {
      fetches.push_back(pair.gradient.dense);
    }
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    const auto session = exec::Session::Create(graph_, {}).value();
    EXPECT_TRUE(session->Initialize().ok());
    std::vector<Vector> result;
    const Result<std::vector<Tensor>> tensors = session->Run({}, fetches);
    EXPECT_TRUE(tensors.ok()) << tensors.status().ToString();
    for (size_t i = 0; tensors.ok() && i < tensors->size(); ++i) {
      result.push_back((*tensors)[i].ToDoubles());
    }
    return result;
  }

  std::vector<GradientAndVariable> Two() {
    return {Pair("a", Shape{2}, {3, -4}), Pair("b", Shape{1, 2}, {0, 12})};
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

void ExpectAll(const std::vector<Vector>& got, const std::vector<Vector>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ExpectClose(got[i], expected[i], fmt::format("gradient {}", i));
  }
}

TEST_F(GradientsTest, ClipsValues) {
  ExpectAll(Clipped(Two(), {.value = 3.5}), {{3, -3.5}, {0, 3.5}});
}

TEST_F(GradientsTest, ClipsEachNorm) {
  // Norms 5 and 12.
  ExpectAll(Clipped(Two(), {.norm = 10}), {{3, -4}, {0, 10}});
  ExpectAll(Clipped(Two(), {.norm = 1}), {{0.6, -0.8}, {0, 1}});
}

TEST_F(GradientsTest, ClipsTheGlobalNorm) {
  // The norm of all is 13.
  ExpectAll(Clipped(Two(), {.global_norm = 6.5}), {{1.5, -2}, {0, 6}});
  ExpectAll(Clipped(Two(), {.global_norm = 13.5}), {{3, -4}, {0, 12}});
}

TEST_F(GradientsTest, WithoutBoundsTheGradientsAreTheSameValues) {
  const std::vector<GradientAndVariable> two = Two();
  const std::vector<GradientAndVariable> same = ClipGradients(b_, two, {});
  ASSERT_EQ(same.size(), 2U);
  EXPECT_EQ(same[0].gradient.dense, two[0].gradient.dense);
  EXPECT_EQ(same[1].gradient.dense, two[1].gradient.dense);
}

TEST_F(GradientsTest, ZeroGradientsStayZero) {
  ExpectAll(Clipped({Pair("a", Shape{2}, {0, 0})}, {.norm = 1}), {{0, 0}});
  ExpectAll(Clipped({Pair("b", Shape{2}, {0, 0})}, {.global_norm = 1}), {{0, 0}});
}

// A failure must show, and not look like a small gradient.
TEST_F(GradientsTest, AnInfiniteGradientMakesAllNanUnderTheGlobalNorm) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Vector> got =
      Clipped({Pair("a", Shape{1}, {infinity}), Pair("b", Shape{1}, {1})}, {.global_norm = 1});
  EXPECT_TRUE(std::isnan(got[0][0]));
  EXPECT_TRUE(std::isnan(got[1][0]));
}

TEST_F(GradientsTest, PairsWithoutAGradientAreLeftAlone) {
  std::vector<GradientAndVariable> pairs = Two();
  pairs.push_back({{}, Variable("unused", Shape{3})});
  for (const ClipOptions& options :
       {ClipOptions{.value = 1}, ClipOptions{.norm = 1}, ClipOptions{.global_norm = 1}}) {
    EXPECT_TRUE(ClipGradients(b_, pairs, options)[2].gradient.is_zero());
  }
  const Value one = op::Scalar(b_, 1);
  const Node* train = ApplyGradients(b_, ParseOptimizer("name = 'momentum'"), pairs, one, one);
  ASSERT_NE(train, nullptr) << b_.status().ToString();
  EXPECT_EQ(train->control_inputs.size(), 2U);
  EXPECT_EQ(graph_.FindNode("unused/momentum"), nullptr);
  EXPECT_NE(graph_.FindNode("a/momentum"), nullptr);
}

TEST_F(GradientsTest, NothingToTrainIsAnError) {
  const Value one = op::Scalar(b_, 1);
  const std::vector<GradientAndVariable> pairs = {{{}, Variable("w", Shape{1})}};
  EXPECT_EQ(ApplyGradients(b_, ParseOptimizer(""), pairs, one, one), nullptr);
  EXPECT_EQ(b_.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(b_.status().message(), HasSubstr("depends on no trainable variable"));
}

TEST_F(GradientsTest, AnUnknownOptimizerIsAnErrorThatNamesIt) {
  const Value one = op::Scalar(b_, 1);
  OptimizerConfig config;
  config.name = "sdg";
  EXPECT_EQ(ApplyGradients(b_, config, Two(), one, one), nullptr);
  EXPECT_THAT(b_.status().message(), HasSubstr("no optimizer 'sdg'"));
}

// A table of three rows, of which the batch looks up rows 2, 0 and 2 again.
class SparseTest : public GradientsTest {
 protected:
  void SetUp() override {
    table_ = Variable("table", Shape{3, 2});
    const Value ids = op::Const(b_, Tensor::From<int32_t>(Shape{3}, {2, 0, 2}));
    const Value losses[] = {op::ReduceSum(b_, op::EmbeddingLookup(b_, table_, ids))};
    const Value variables[] = {table_};
    const Result<std::vector<Gradient>> gradients = pass::Gradients(b_, losses, variables);
    ASSERT_TRUE(gradients.ok()) << gradients.status().ToString();
    gradient_ = (*gradients)[0];
    ASSERT_TRUE(gradient_.is_sparse());
  }

  Value table_;
  Gradient gradient_;
};

TEST_F(SparseTest, RowsThatAreNamedTwiceCountTwice) {
  Node* train = ApplyGradients(b_, ParseOptimizer("name = 'sgd'"), {{{gradient_, table_}}},
                               op::Scalar(b_, 0.5), op::Scalar(b_, 1));
  ASSERT_NE(train, nullptr) << b_.status().ToString();
  const auto session = exec::Session::Create(graph_, {}).value();
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(session->Run({}, {}, {train}).ok());
  EXPECT_THAT(session->variables().Read("table").value().ToDoubles(),
              ElementsAre(-0.5, -0.5, 0, 0, -1, -1));
}

TEST_F(SparseTest, ClippingSeesTheSumOfTheRows) {
  // Rows 1 1, 0 0, 2 2: the norm is sqrt(10).
  const double length = 1 / std::sqrt(10);
  ExpectAll(Clipped({{gradient_, table_}}, {.norm = 1}),
            {{length, length, 0, 0, 2 * length, 2 * length}});
  ExpectAll(Clipped({{gradient_, table_}}, {.value = 1.5}), {{1, 1, 0, 0, 1.5, 1.5}});
}

}  // namespace
}  // namespace lockstep::train
