// Activations, mathematics, losses and optimizers against the numbers of other frameworks.

#include "lockstep/op/testing/parity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/op/apply.h"
#include "lockstep/op/apply_layerwise.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/global_norm.h"
#include "lockstep/op/losses.h"
#include "lockstep/op/one_hot.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reshape.h"
#include "lockstep/op/softmax_cross_entropy.h"
#include "lockstep/op/sparse_softmax_cross_entropy.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/transpose.h"
#include "lockstep/op/unary.h"

namespace lockstep::op::testing {
namespace {

std::string PathOf(const std::string& group) {
  return fmt::format("{}/tests/parity/{}.json", LS_SOURCE_DIR, group);
}

// The op of the same name, with the inputs in order.
NamedValues SameOp(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  std::vector<Value> values;
  for (const ParityArray& input : c.inputs) {
    values.push_back(inputs.at(input.name));
  }
  return {{c.outputs[0].name, ctx.Add(c.op, std::move(values), c.attrs)}};
}

NamedValues Reduction(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"y", ctx.Add(c.op, {inputs.at("x")},
                        {{"axes", c.attrs.GetInts("axes")},
                         {"keep_dims", c.attrs.GetBool("keepdims")}})}};
}

NamedValues ClipValues(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"y", Clip(ctx, inputs.at("x"), c.attrs.GetFloat("min"), c.attrs.GetFloat("max"))}};
}

NamedValues ClipByNorm(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  const Value x = inputs.at("x");
  const Value norm = GlobalNorm(ctx, {x});
  return {{"y", Mul(ctx, x, ClipFactor(ctx, norm, c.attrs.GetFloat("norm")))}};
}

NamedValues ClipByGlobalNorm(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  const Value a = inputs.at("a");
  const Value b = inputs.at("b");
  const Value norm = GlobalNorm(ctx, {a, b});
  const Value factor = ClipFactor(ctx, norm, c.attrs.GetFloat("norm"));
  return {{"a_clipped", Mul(ctx, a, factor)},
          {"b_clipped", Mul(ctx, b, factor)},
          {"global_norm", norm}};
}

NamedValues GatherAlong(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  const Value params = inputs.at("params");
  const Value indices = inputs.at("indices");
  if (c.attrs.GetInt("axis") == 0) {
    return {{"y", Gather(ctx, params, indices)}};
  }
  return {{"y", Transpose(ctx, Gather(ctx, Transpose(ctx, params), indices))}};
}

NamedValues OneHotValues(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"y", OneHot(ctx, inputs.at("indices"), c.attrs.GetInt("depth"),
                       c.attrs.GetFloat("on_value"), c.attrs.GetFloat("off_value"))}};
}

NamedValues DenseCrossEntropy(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"loss", SoftmaxCrossEntropyWithLogits(ctx, inputs.at("logits"), inputs.at("labels"),
                                                 c.attrs.GetFloat("label_smoothing"))
                       .loss}};
}

NamedValues SparseCrossEntropy(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  const AttrValue* ignored = c.attrs.Find("ignored_label");
  const int64_t ignore_label = ignored == nullptr ? -1 : std::get<int64_t>(*ignored);
  const Value loss =
      SparseSoftmaxCrossEntropyWithLogits(ctx, inputs.at("logits"), inputs.at("labels"),
                                          c.attrs.GetFloat("label_smoothing"), ignore_label)
          .loss;
  if (c.attrs.GetString("reduction") == "none") {
    return {{"loss", loss}};
  }
  double counted = 0.0;
  for (const double label : c.Input("labels").values) {
    counted += label == static_cast<double>(ignore_label) ? 0.0 : 1.0;
  }
  return {{"loss", Mul(ctx, ReduceSum(ctx, loss), Scalar(ctx, 1.0 / counted))}};
}

NamedValues SigmoidCrossEntropy(BuildContext ctx, const ParityCase&, const NamedValues& inputs) {
  return {{"loss", SigmoidCrossEntropyWithLogits(ctx, inputs.at("logits"), inputs.at("labels"))}};
}

// A loss per sample; element-wise cases have one element per sample.
template <class Loss>
NamedValues PerSample(BuildContext ctx, const ParityCase& c, const NamedValues& inputs,
                      const Loss& loss) {
  const Value predictions = inputs.at("predictions");
  const Value labels = inputs.at("labels");
  if (c.attrs.GetString("reduction") != "none") {
    return {{"loss", loss(predictions, labels)}};
  }
  const Shape flat = {Shape::kUnknownDim};
  return {
      {"loss", ReshapeLike(ctx, loss(Reshape(ctx, predictions, flat), Reshape(ctx, labels, flat)),
                           predictions)}};
}

NamedValues SquaredError(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return PerSample(ctx, c, inputs, [&](Value p, Value t) { return MeanSquaredError(ctx, p, t); });
}

NamedValues HuberLoss(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return PerSample(ctx, c, inputs,
                   [&](Value p, Value t) { return Huber(ctx, p, t, c.attrs.GetFloat("delta")); });
}

// How a case's op is written with ours where the names or attributes differ.
const std::map<std::string_view, ParityBuild>& Special() {
  static const std::map<std::string_view, ParityBuild> special = {
      {"Clip", ClipValues},
      {"ClipByGlobalNorm", ClipByGlobalNorm},
      {"ClipByNorm", ClipByNorm},
      {"Gather", GatherAlong},
      {"Huber", HuberLoss},
      {"MSE", SquaredError},
      {"OneHot", OneHotValues},
      {"ReduceMax", Reduction},
      {"ReduceMean", Reduction},
      {"ReduceMin", Reduction},
      {"ReduceProd", Reduction},
      {"ReduceSum", Reduction},
      {"SigmoidCrossEntropyWithLogits", SigmoidCrossEntropy},
      {"SoftmaxCrossEntropyWithLogits", DenseCrossEntropy},
      {"SparseSoftmaxCrossEntropyWithLogits", SparseCrossEntropy},
  };
  return special;
}

class ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityTest, AgreesWithOtherFrameworks) {
  const Result<std::vector<ParityCase>> cases = LoadParityCases(PathOf(GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status().ToString();
  ASSERT_FALSE(cases->empty());
  for (const ParityCase& c : *cases) {
    const auto special = Special().find(c.op);
    EXPECT_EQ(ParityDifference(c, special == Special().end() ? SameOp : special->second), "")
        << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, ParityTest, ::testing::Values("activations", "losses", "math"),
                         [](const auto& group) { return std::string(group.param); });

// ---- Optimizers

// What a case's update reads and writes.
struct Update {
  NamedValues slots;  // by the case's names
  Value var;
  Value lr;
  Value grad;
  Value step;

  Value slot(std::string_view name) const { return slots.find(name)->second; }
};

Node* AddUpdate(BuildContext ctx, const ParityCase& c, const Update& u) {
  const AttrMap& attrs = c.attrs;
  if (c.op == "GradientDescent") {
    return ApplyGradientDescent(ctx, u.var, u.lr, u.grad).node;
  }
  if (c.op == "Momentum") {
    return ApplyMomentum(
               ctx, u.var, u.slot("accum"), u.lr, u.grad,
               {.momentum = attrs.GetFloat("momentum"), .nesterov = attrs.GetBool("nesterov")})
        .node;
  }
  if (c.op == "Adagrad") {
    return ApplyAdagrad(ctx, u.var, u.slot("accum"), u.lr, u.grad,
                        {.epsilon = attrs.GetFloat("epsilon")})
        .node;
  }
  if (c.op == "RMSProp") {
    const RmsPropOptions options = {.decay = attrs.GetFloat("rho"),
                                    .momentum = attrs.GetFloat("momentum"),
                                    .epsilon = attrs.GetFloat("epsilon")};
    return (attrs.GetBool("centered")
                ? ApplyCenteredRmsProp(ctx, u.var, u.slot("ms"), u.slot("mom"), u.slot("mg"), u.lr,
                                       u.grad, options)
                : ApplyRmsProp(ctx, u.var, u.slot("ms"), u.slot("mom"), u.lr, u.grad, options))
        .node;
  }
  if (c.op == "Adam" || c.op == "AdamW") {
    AdamOptions options = {.beta1 = attrs.GetFloat("beta1"),
                           .beta2 = attrs.GetFloat("beta2"),
                           .epsilon = attrs.GetFloat("epsilon")};
    if (c.op == "AdamW") {
      options.weight_decay = attrs.GetFloat("weight_decay");
      options.epsilon_hat = attrs.GetString("epsilon_form") == "epsilon_hat";
    }
    return ApplyAdam(ctx, u.var, u.slot("m"), u.slot("v"), u.step, u.lr, u.grad, options).node;
  }
  if (c.op == "LARS") {
    return ApplyLars(ctx, u.var, u.slot("accum"), u.lr, u.grad,
                     {.momentum = attrs.GetFloat("momentum"),
                      .weight_decay = attrs.GetFloat("weight_decay"),
                      .trust_coefficient = attrs.GetFloat("trust_coefficient")})
        .node;
  }
  if (c.op == "LAMB") {
    return ApplyLamb(ctx, u.var, u.slot("m"), u.slot("v"), u.step, u.lr, u.grad,
                     {.beta1 = attrs.GetFloat("beta1"),
                      .beta2 = attrs.GetFloat("beta2"),
                      .epsilon = attrs.GetFloat("epsilon"),
                      .weight_decay = attrs.GetFloat("weight_decay")})
        .node;
  }
  return nullptr;
}

// Row t of an array [steps, ...].
DoubleTensor Row(const DoubleTensor& rows, int64_t t) {
  Shape shape;
  for (int i = 1; i < rows.shape.rank(); ++i) {
    shape.Append(rows.shape[i]);
  }
  const auto size = static_cast<size_t>(shape.num_elements());
  const auto begin = rows.values.begin() + t * static_cast<int64_t>(size);
  return {rows.dtype, shape, {begin, begin + static_cast<int64_t>(size)}};
}

Value VariableOf(Builder& builder, const DoubleTensor& like) {
  return BuildContext(builder).Add("Variable", {}, {{"dtype", like.dtype}, {"shape", like.shape}});
}

void RunOptimizer(const ParityCase& c, Interpreter::Mode mode, double tolerance) {
  Graph graph(Catalog());
  Builder builder(graph);
  Interpreter run(mode);
  const DoubleTensor& start = c.Input("param");
  Update u;
  u.var = VariableOf(builder, start);
  run.Feed(u.var, start);
  for (const ParityArray& output : c.outputs) {
    if (output.name != "param") {
      const AttrValue* initial = c.attrs.Find("initial_" + output.name);
      ASSERT_NE(initial, nullptr);
      const Value slot = VariableOf(builder, start);
      run.Feed(slot, {start.dtype, start.shape,
                      std::vector<double>(start.values.size(), std::get<double>(*initial))});
      u.slots[output.name] = slot;
    }
  }
  u.lr = Placeholder(builder, DType::kFloat32, Shape{});
  u.grad = Placeholder(builder, DType::kFloat32, start.shape);
  u.step = Placeholder(builder, DType::kInt64, Shape{});
  const Node* update = AddUpdate(builder, c, u);
  ASSERT_TRUE(builder.status().ok()) << builder.status().ToString();
  ASSERT_NE(update, nullptr) << "no optimizer " << c.op;
  for (int64_t t = 0; t < c.Input("grads").shape[0]; ++t) {
    SCOPED_TRACE(fmt::format("step {}", t + 1));
    run.Feed(u.lr, Row(c.Input("learning_rates"), t));
    run.Feed(u.grad, Row(c.Input("grads"), t));
    run.Feed(u.step, {DType::kInt64, Shape{}, {static_cast<double>(t + 1)}});
    const Status status = run.Run(graph, *update);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (const ParityArray& output : c.outputs) {
      const Value variable = output.name == "param" ? u.var : u.slot(output.name);
      const Result<DoubleTensor> value = run.Evaluate(graph, variable);
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      EXPECT_EQ(ArrayDifference(output.name, *value, Row(output.tensor, t), tolerance), "");
    }
  }
}

TEST(OptimizerParityTest, FiveStepsWithAChangingRate) {
  const Result<std::vector<ParityCase>> cases = LoadParityCases(PathOf("optimizers"));
  ASSERT_TRUE(cases.ok()) << cases.status().ToString();
  ASSERT_FALSE(cases->empty());
  for (const ParityCase& c : *cases) {
    SCOPED_TRACE(c.name);
    RunOptimizer(c, Interpreter::Mode::kKernels, 1e-5);
    // Keras keeps the powers of beta in float32.
    const bool keras = c.name.starts_with("adamw_epsilon_hat");
    RunOptimizer(c, Interpreter::Mode::kReferences, keras ? 2e-6 : 1e-7);
  }
}

}  // namespace
}  // namespace lockstep::op::testing
