// Runs every op of the catalog over its samples: inference against what kernels make, kernels
// against float64 references, gradients against finite differences of the references, any layout,
// any number of threads, empty batches and open dimensions. A new op needs samples, not a new test.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/testing/run_op.h"

namespace lockstep::op::testing {
namespace {

// Ops without samples.
const std::map<std::string_view, std::string_view> kWithoutSamples = {
    {"NoOp", "has neither inputs nor outputs"},    {"Placeholder", "is fed"},
    {"Recv", "takes what another device gives"},   {"Send", "gives to another device"},
    {"ShapeOnly", "has a shape and nothing else"}, {"Variable", "is storage, not a computation"},
};

// Ops whose kernels sum in another order with another number of threads. Contract C1 fixes the
// threads of a replica, so they need only give the same bits in every run.
const std::map<std::string_view, std::string_view> kThreadsChangeSums = {
    {"Conv2DBackpropFilter", "oneDNN gives each thread a part of the batch"},
};

struct Case {
  const OpDef* op;
  Sample sample;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.op->name << " '" << c.sample.name << "'";
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const OpDef& op : Catalog().ops()) {
    if (op.samples != nullptr) {
      for (Sample& sample : op.samples()) {
        cases.push_back({&op, std::move(sample)});
      }
    }
  }
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  std::string name(info.param.op->name);
  name += '_';
  for (const char c : info.param.sample.name) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return fmt::format("{}_{}", name, info.index);
}

std::string IndexText(const Shape& shape, int64_t flat) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (size_t axis = index.size(); axis-- > 0;) {
    index[axis] = flat % shape[static_cast<int>(axis)];
    flat /= shape[static_cast<int>(axis)];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

// Empty if they agree, otherwise the first difference and how many there are.
std::string Difference(const DoubleTensor& got, const DoubleTensor& expected, double tolerance) {
  if (got.shape != expected.shape || got.dtype != expected.dtype) {
    return fmt::format("got {} {}, expected {} {}", DTypeName(got.dtype), got.shape.ToString(),
                       DTypeName(expected.dtype), expected.shape.ToString());
  }
  std::string first;
  int count = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i];
    const double b = expected.values[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= tolerance * (1.0 + std::abs(b));
    if (!same && count++ == 0) {
      first = fmt::format("at {} of {}: got {:.9g}, expected {:.9g} (tolerance {})",
                          IndexText(got.shape, static_cast<int64_t>(i)), got.shape.ToString(), a, b,
                          tolerance);
    }
  }
  return count == 0 ? "" : fmt::format("{} elements differ, the first {}", count, first);
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Rounds to the type that the tensor has, as a kernel must.
DoubleTensor Rounded(const DoubleTensor& tensor) {
  const Result<Tensor> rounded = FromDoubleTensor(tensor);
  return rounded.ok() ? ToDoubleTensor(*rounded) : DoubleTensor{};
}

class ConformanceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < sample().inputs.size(); ++i) {
      Result<Tensor> input = MakeInput(sample().inputs[i], static_cast<int>(i));
      ASSERT_TRUE(input.ok()) << input.status().ToString();
      inputs_.push_back(*input);
    }
    node_ = Make(inputs_);
    ASSERT_NE(node_, nullptr) << made_.ToString();
  }

  const OpDef& op() const { return *GetParam().op; }

  const Sample& sample() const { return GetParam().sample; }

  // Null, with the reason in made_, if inference refuses.
  Node* Make(const std::vector<Tensor>& inputs) {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) {
      types.push_back({input.dtype(), input.shape()});
    }
    const Result<Node*> node = MakeNode(graph_, op().name, types, sample().attrs);
    made_ = node.status();
    return node.ok() ? *node : nullptr;
  }

  std::vector<DoubleTensor> Doubles(const std::vector<Tensor>& inputs) const {
    std::vector<DoubleTensor> doubles;
    for (const Tensor& input : inputs) {
      doubles.push_back(ToDoubleTensor(input));
    }
    return doubles;
  }

  // False where the plan falls back on another kernel for the sample's types, which float32 never
  // needs.
  bool HasKernel() const {
    if (op().cpu == nullptr) {
      return false;
    }
    const Result<NodeResult> result = RunKernel(*node_, inputs_);
    const bool float32 = std::any_of(inputs_.begin(), inputs_.end(), [](const Tensor& input) {
      return input.dtype() == DType::kFloat32;
    });
    return result.ok() || float32 || result.status().code() != StatusCode::kUnimplemented;
  }

  void ExpectMatchesReference(const Node& node, const std::vector<Tensor>& inputs,
                              const RunOptions& options) const {
    const Result<NodeResult> got = RunKernel(node, inputs, options);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    const Result<ReferenceResult> expected = RunReference(node, Doubles(inputs), options.step);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    for (size_t o = 0; o < got->outputs.size(); ++o) {
      EXPECT_EQ(Difference(ToDoubleTensor(got->outputs[o]), Rounded(expected->outputs[o]),
                           sample().tolerance),
                "")
          << "output " << o;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (op().Writes(static_cast<int>(i))) {
        EXPECT_EQ(Difference(ToDoubleTensor(got->variables[i]), Rounded(expected->variables[i]),
                             sample().tolerance),
                  "")
            << "variable " << i;
      }
    }
  }

  void ExpectSameBits(const RunOptions& a, const RunOptions& b) const {
    const Result<NodeResult> plain = RunKernel(*node_, inputs_, a);
    ASSERT_TRUE(plain.ok()) << plain.status().ToString();
    const Result<NodeResult> other = RunKernel(*node_, inputs_, b);
    ASSERT_TRUE(other.ok()) << other.status().ToString();
    for (size_t o = 0; o < plain->outputs.size(); ++o) {
      EXPECT_TRUE(SameBytes(plain->outputs[o], other->outputs[o]))
          << "output " << o << ": " << plain->outputs[o].ToString() << " against "
          << other->outputs[o].ToString();
    }
    for (size_t i = 0; i < plain->variables.size(); ++i) {
      if (plain->variables[i].has_value()) {
        EXPECT_TRUE(SameBytes(plain->variables[i], other->variables[i])) << "variable " << i;
      }
    }
  }

  // The op runs the same way with `dim` in place of the first dimension of input 0, in every input
  // that shares it.
  std::vector<Shape> WithFirstDim(int64_t dim) const {
    std::vector<Shape> shapes;
    for (const Tensor& input : inputs_) {
      Shape shape = input.shape();
      if (shape.rank() > 0 && shape[0] == inputs_[0].shape()[0]) {
        shape.set_dim(0, dim);
      }
      shapes.push_back(shape);
    }
    return shapes;
  }

  bool HasFirstDim() const {
    return !inputs_.empty() && inputs_[0].shape().rank() > 0 && inputs_[0].shape()[0] > 1;
  }

  // Variables keep their shapes.
  Result<std::vector<TensorType>> InferOpen(const std::vector<Shape>& shapes) const {
    std::vector<TensorType> types;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool written = op().Writes(static_cast<int>(i));
      types.push_back({inputs_[i].dtype(), written ? inputs_[i].shape() : shapes[i], written});
    }
    return InferOutputs(*node_, types);
  }

  void ExpectCompatible(const Result<std::vector<TensorType>>& open) const {
    if (!open.ok()) {
      return;
    }
    ASSERT_EQ(open->size(), node_->outputs.size());
    for (size_t o = 0; o < open->size(); ++o) {
      EXPECT_TRUE((*open)[o].shape.CompatibleWith(node_->outputs[o].shape))
          << "output " << o << ": " << (*open)[o].shape.ToString() << " against "
          << node_->outputs[o].shape.ToString();
      EXPECT_EQ((*open)[o].dtype, node_->outputs[o].dtype);
    }
  }

  Graph graph_{Catalog()};
  std::vector<Tensor> inputs_;
  Node* node_ = nullptr;
  Status made_;
};

TEST_P(ConformanceTest, KernelMatchesReference) {
  ASSERT_NE(op().reference, nullptr);
  if (!HasKernel()) {
    GTEST_SKIP() << "no kernel for the sample's types";
  }
  ExpectMatchesReference(*node_, inputs_, {.step = {.seed = 7, .step = 3, .replica = 1}});
}

TEST_P(ConformanceTest, AnyLayoutGivesTheSame) {
  if (!HasKernel()) {
    GTEST_SKIP() << "no kernel for the sample's types";
  }
  for (const InputLayout layout : {InputLayout::kTransposed, InputLayout::kBlocked8}) {
    SCOPED_TRACE(layout == InputLayout::kTransposed ? "transposed inputs" : "blocked inputs");
    ExpectMatchesReference(*node_, inputs_, {.layout = layout});
  }
}

TEST_P(ConformanceTest, InPlaceGivesTheSameBits) {
  if (!HasKernel()) {
    GTEST_SKIP() << "no kernel for the sample's types";
  }
  ExpectSameBits({}, {.in_place = true});
}

TEST_P(ConformanceTest, ThreadsGiveTheSameBits) {
  if (!HasKernel()) {
    GTEST_SKIP() << "no kernel for the sample's types";
  }
  const RunOptions one;
  const RunOptions two{.threads = 2};
  if (kThreadsChangeSums.contains(op().name)) {
    ExpectMatchesReference(*node_, inputs_, two);
    ExpectSameBits(two, two);
  } else {
    ExpectSameBits(one, two);
  }
}

TEST_P(ConformanceTest, EmptyBatch) {
  if (!HasKernel() || !HasFirstDim()) {
    GTEST_SKIP() << "no kernel or no batch";
  }
  std::vector<Tensor> empty;
  const std::vector<Shape> shapes = WithFirstDim(0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (shapes[i] == inputs_[i].shape()) {
      empty.push_back(inputs_[i]);
      continue;
    }
    const Result<Tensor> tensor = Tensor::Zeros(inputs_[i].dtype(), shapes[i]);
    ASSERT_TRUE(tensor.ok());
    empty.push_back(*tensor);
  }
  const Node* node = Make(empty);
  if (node == nullptr) {
    GTEST_SKIP() << "refused: " << made_.ToString();
  }
  ExpectMatchesReference(*node, empty, {});
}

TEST_P(ConformanceTest, OpenBatchInfersCompatibleShapes) {
  if (!HasFirstDim()) {
    GTEST_SKIP() << "no batch";
  }
  // Other inputs of the same first dimension may share the batch, or be of that size by chance.
  std::vector<Shape> first_only = WithFirstDim(Shape::kUnknownDim);
  for (size_t i = 1; i < inputs_.size(); ++i) {
    first_only[i] = inputs_[i].shape();
  }
  const auto shared = InferOpen(WithFirstDim(Shape::kUnknownDim));
  const auto alone = InferOpen(first_only);
  EXPECT_TRUE(shared.ok() || alone.ok()) << shared.status().ToString();
  ExpectCompatible(shared);
  ExpectCompatible(alone);
}

// With every dimension open an op may refuse, but not be wrong.
TEST_P(ConformanceTest, OpenDimensionsInferCompatibleShapes) {
  std::vector<Shape> open;
  for (const Tensor& input : inputs_) {
    open.push_back(
        Shape(std::vector<int64_t>(static_cast<size_t>(input.shape().rank()), Shape::kUnknownDim)));
  }
  ExpectCompatible(InferOpen(open));
}

// Gradients of sum(dy * output).
class GradientTest : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    for (const Tensor& input : inputs_) {
      if (IsFloating(input.dtype()) && input.dtype() != DType::kFloat32) {
        GTEST_SKIP() << "gradients are checked in float32";
      }
    }
    if (op().grad == nullptr || op().written_inputs != 0 || !sample().check_gradient) {
      GTEST_SKIP() << "no gradient to check";
    }
  }

  // Emits the gradient for a placeholder `dy_` at output `o`.
  Status Emit(int o) {
    const TensorType& type = node_->outputs[static_cast<size_t>(o)];
    Result<Node*> dy = graph_.AddNode({.name = graph_.UniqueName("dy"),
                                       .op = "Placeholder",
                                       .attrs = {{"dtype", type.dtype}, {"shape", type.shape}}});
    LS_TRY(dy.status());
    dy_ = (*dy)->output();
    LS_ASSIGN_OR_RETURN(
        const Tensor dy_value,
        MakeInput({.shape = type.shape, .dtype = type.dtype, .low = -1, .high = 1.5}, 7));
    dy_value_ = ToDoubleTensor(dy_value);
    std::vector<Value> output_grads(node_->outputs.size());
    output_grads[static_cast<size_t>(o)] = dy_;
    GradContext ctx(builder_, *node_, output_grads);
    LS_TRY(op().grad(ctx));
    LS_TRY(builder_.status());
    gradients_ = ctx.TakeInputGrads();
    return OkStatus();
  }

  // The gradient of input i as the emitted nodes compute it.
  Result<DoubleTensor> Analytic(size_t i, Interpreter::Mode mode) {
    DoubleTensor dense{inputs_[i].dtype(), inputs_[i].shape(),
                       std::vector<double>(static_cast<size_t>(inputs_[i].num_elements()))};
    const Gradient& gradient = gradients_[i];
    if (gradient.is_zero()) {
      return dense;
    }
    Interpreter run(mode);
    for (size_t k = 0; k < inputs_.size(); ++k) {
      run.Feed(node_->inputs[k], ToDoubleTensor(inputs_[k]));
    }
    run.Feed(dy_, dy_value_);
    if (!gradient.is_sparse()) {
      return run.Evaluate(graph_, gradient.dense);
    }
    const std::vector<Value> parts = {gradient.indices, gradient.values};
    LS_ASSIGN_OR_RETURN(const std::vector<DoubleTensor> sparse, run.Evaluate(graph_, parts));
    const size_t rows = sparse[0].values.size();
    const size_t width = rows == 0 ? 0 : sparse[1].values.size() / rows;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < width; ++c) {
        dense.values[static_cast<size_t>(sparse[0].values[r]) * width + c] +=
            sparse[1].values[r * width + c];
      }
    }
    return dense;
  }

  double Loss(const std::vector<DoubleTensor>& inputs, int o) {
    const Result<ReferenceResult> result = RunReference(*node_, inputs);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    const auto& values = result->outputs[static_cast<size_t>(o)].values;
    double loss = 0.0;
    for (size_t i = 0; i < values.size(); ++i) {
      loss += values[i] * dy_value_.values[i];
    }
    return loss;
  }

  DoubleTensor Numeric(size_t i, int o) {
    std::vector<DoubleTensor> inputs = Doubles(inputs_);
    DoubleTensor result = inputs[i];
    for (size_t e = 0; e < result.values.size(); ++e) {
      const double x = inputs[i].values[e];
      const double h = 1e-5 * std::max(1.0, std::abs(x));
      inputs[i].values[e] = x + h;
      const double up = Loss(inputs, o);
      inputs[i].values[e] = x - h;
      const double down = Loss(inputs, o);
      inputs[i].values[e] = x;
      result.values[e] = (up - down) / (2.0 * h);
    }
    return result;
  }

  void Check(int o) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!IsFloating(inputs_[i].dtype())) {
        EXPECT_TRUE(gradients_[i].is_zero()) << "input " << i << " is not floating";
        continue;
      }
      SCOPED_TRACE(fmt::format("gradient of output {} for input {}", o, i));
      const Result<DoubleTensor> exact = Analytic(i, Interpreter::Mode::kReferences);
      ASSERT_TRUE(exact.ok()) << exact.status().ToString();
      const DoubleTensor numeric =
          op().UsesShapeOnly(static_cast<int>(i))
              ? DoubleTensor{exact->dtype, exact->shape, std::vector<double>(exact->values.size())}
              : Numeric(i, o);
      EXPECT_EQ(Difference(*exact, numeric, sample().gradient_tolerance), "")
          << "(got: the gradient's references, expected: finite differences)";
      const Result<DoubleTensor> computed = Analytic(i, Interpreter::Mode::kKernels);
      ASSERT_TRUE(computed.ok()) << computed.status().ToString();
      EXPECT_EQ(Difference(*computed, *exact, 10.0 * sample().tolerance), "")
          << "(got: the gradient's kernels, expected: its references)";
    }
  }

  Builder builder_{graph_};
  Value dy_;
  DoubleTensor dy_value_;
  std::vector<Gradient> gradients_;
};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  int checked = 0;
  for (int o = 0; o < static_cast<int>(node_->outputs.size()); ++o) {
    if (!IsFloating(node_->outputs[static_cast<size_t>(o)].dtype)) {
      continue;
    }
    const Status status = Emit(o);
    // An op may say that no gradient passes through a further output, but not pass a wrong one.
    if (!status.ok() && o > 0) {
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
    Check(o);
    ++checked;
  }
  if (checked == 0) {
    GTEST_SKIP() << "no floating output";
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, ConformanceTest, ::testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Catalog, GradientTest, ::testing::ValuesIn(AllCases()), CaseName);

TEST(CatalogTest, EveryOpHasSamplesAndReferenceOrAReason) {
  std::set<std::string_view> unused;
  for (const auto& [name, reason] : kWithoutSamples) {
    unused.insert(name);
  }
  for (const OpDef& op : Catalog().ops()) {
    EXPECT_FALSE(op.summary.empty()) << op.name;
    EXPECT_NE(op.infer, nullptr) << op.name;
    if (unused.erase(op.name) == 0) {
      EXPECT_NE(op.samples, nullptr) << op.name << " has no samples";
      EXPECT_NE(op.reference, nullptr) << op.name << " has no reference";
      EXPECT_TRUE(op.samples == nullptr || !op.samples().empty()) << op.name;
    } else {
      EXPECT_EQ(op.samples, nullptr) << op.name << " has samples after all";
    }
  }
  EXPECT_TRUE(unused.empty()) << *unused.begin() << " is not in the catalog";
}

}  // namespace
}  // namespace lockstep::op::testing
