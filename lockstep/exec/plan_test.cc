#include "lockstep/exec/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <sstream>
#include <thread>

#include "lockstep/exec/session.h"
#include "lockstep/exec/testing/tensors.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/group.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/pool.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::exec {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Ops that want their [n, c, h, w] in one certain layout, beside the catalog's. All pass x on;
// Blocked and Plain read an optional second input only to come after it.

Status PassInfer(InferContext& ctx) {
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Kernel PassKernel(const KernelRequest& request, const Layout& layout) {
  Kernel kernel;
  kernel.input_layouts.assign(request.inputs.size(), Layout());
  kernel.input_layouts[0] = layout;
  kernel.output_layouts = {layout};
  kernel.run = [bytes = layout.Bytes(request.inputs[0].shape, request.inputs[0].dtype)](
                   const KernelArgs& args) {
    std::memcpy(args.outputs[0], args.inputs[0], bytes);
    return OkStatus();
  };
  return kernel;
}

OpDef PassDef(std::string_view name, KernelFn cpu) {
  return {.name = name, .min_inputs = 1, .max_inputs = 2, .infer = PassInfer, .cpu = cpu};
}

OpCatalog TestCatalog() {
  const auto ops = op::Catalog().ops();
  std::vector<OpDef> all(ops.begin(), ops.end());
  all.push_back(PassDef("TestBlocked", [](const KernelRequest& request) -> Result<Kernel> {
    return PassKernel(request, BlockedChannels(request.inputs[0].shape));
  }));
  all.push_back(PassDef("TestPlain", [](const KernelRequest& request) -> Result<Kernel> {
    return PassKernel(request, Layout());
  }));
  all.push_back(PassDef("TestFloat32", [](const KernelRequest& request) -> Result<Kernel> {
    if (request.inputs[0].dtype != DType::kFloat32) {
      return Unimplemented("float32 only");
    }
    Kernel kernel = PassKernel(request, Layout());
    kernel.run = [n = request.inputs[0].shape.num_elements()](const KernelArgs& args) {
      for (int64_t i = 0; i < n; ++i) {
        args.out<float>(0)[i] = 3.0F * args.in<float>(0)[i];
      }
      return OkStatus();
    };
    return kernel;
  }));
  all.push_back(PassDef("TestFailing", [](const KernelRequest& request) -> Result<Kernel> {
    Kernel kernel = PassKernel(request, Layout());
    kernel.run = [](const KernelArgs&) { return InvalidArgument("the kernel refuses"); };
    return kernel;
  }));
  all.push_back(PassDef("TestNothing", nullptr));
  return OpCatalog(std::move(all));
}

Tensor Spread(const Shape& shape, float scale = 0.1F) {
  Tensor tensor = Tensor::Allocate(DType::kFloat32, shape).value();
  int64_t i = 0;
  for (float& value : tensor.values<float>()) {
    value = scale * static_cast<float>((i++ * 37) % 23 - 11);
  }
  return tensor;
}

class PlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> NewSession(std::shared_ptr<VariableStore> store = nullptr) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    return Session::Create(graph_, {}, std::move(store)).value();
  }

  Value Input(DType dtype, const Shape& shape, std::string_view name = "x") {
    return op::Placeholder(b_, dtype, shape, name);
  }

  Value Op(std::string_view op, const std::vector<Value>& inputs) {
    return BuildContext(b_).Add(op, inputs);
  }

  // The plan of a signature, which must compile.
  static const Plan& PlanOf(Session& session, const Signature& signature,
                            const std::vector<Tensor>& feeds) {
    const Result<const Plan*> plan = session.Prepare(signature).value()->PlanFor(feeds);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return **plan;
  }

  // How often a kind of step occurs.
  static int Count(const Plan& plan, std::string_view kind) {
    const std::string text = plan.ToString();
    const std::string wanted = std::string(kind) + " ";
    int count = text.rfind(wanted, 0) == 0 ? 1 : 0;
    for (size_t at = text.find("\n" + wanted); at != std::string::npos;
         at = text.find("\n" + wanted, at + 1)) {
      ++count;
    }
    return count;
  }

  OpCatalog catalog_ = TestCatalog();
  Graph graph_{catalog_};
  Builder b_{graph_};
};

// Two convolutions and their updates: everything but the input stays in the convolutions' layouts.
class ConvPlanTest : public PlanTest {
 protected:
  void SetUp() override {
    x_ = Input(DType::kFloat32, {-1, 12, 12, 16});
    first_ = op::Variable(b_, "first", op::Const(b_, Spread({3, 3, 16, 32}, 0.01F)));
    second_ = op::Variable(b_, "second", op::Const(b_, Spread({3, 3, 32, 32}, 0.01F)));
    hidden_ = op::Relu(b_, op::Conv2D(b_, x_, first_));
    y_ = op::Conv2D(b_, hidden_, second_);
    loss_ = op::ReduceMean(b_, op::Square(b_, op::GlobalAveragePool(b_, y_)));
    const Value ys[] = {loss_};
    const Value xs[] = {first_, second_};
    const std::vector<Gradient> gradients = pass::Gradients(b_, ys, xs).value();
    const Value rate = op::Scalar(b_, 0.01);
    train_ = op::Group(
        b_, std::vector<Value>{op::ApplyGradientDescent(b_, first_, rate, gradients[0].dense),
                               op::ApplyGradientDescent(b_, second_, rate, gradients[1].dense)});
  }

  std::vector<Tensor> Feed(int64_t batch = 4) const { return {Spread({batch, 12, 12, 16})}; }

  // The input comes plain; the gradient of a convolution's input may want its filter in another
  // order than the convolution itself (as with AVX-512). Activations and their gradients stay.
  static void ExpectOnlyInputAndFilterReorders(const Plan& plan, int64_t batch) {
    EXPECT_LE(plan.stats().reorders, 3) << plan.ToString();
    const std::string input = Shape{batch, 12, 12, 16}.ToString();
    const std::string filter = Shape{3, 3, 32, 32}.ToString();
    std::istringstream lines(plan.ToString());
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("Reorder", 0) == 0) {
        EXPECT_THAT(line, AnyOf(HasSubstr(input), HasSubstr(filter)));
      }
    }
  }

  Value x_, first_, second_, hidden_, y_, loss_;
  Node* train_ = nullptr;
};

TEST_F(ConvPlanTest, ATrainingStepKeepsActivationsBlocked) {
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const Plan& plan = PlanOf(*session, {{x_}, {loss_}, {train_}}, Feed());
  const std::string text = plan.ToString();
  ExpectOnlyInputAndFilterReorders(plan, 4);
  EXPECT_EQ(Count(plan, "Conv2D"), 2) << text;
  EXPECT_EQ(Count(plan, "Conv2DBackpropFilter"), 2) << text;
  EXPECT_EQ(Count(plan, "Conv2DBackpropInput"), 1) << text;
  // What the convolutions make is blocked, or at least not what the graph says.
  for (size_t at = text.find("Conv2D "); at != std::string::npos; at = text.find("\nConv2D ", at)) {
    const std::string line = text.substr(at, text.find('\n', at + 1) - at);
    EXPECT_THAT(line, Not(HasSubstr("plain"))) << text;
    at += line.size();
  }
  EXPECT_FALSE(session->variables().Find("second")->layout.is_plain());
}

TEST_F(ConvPlanTest, LaterPlansFollowTheLayoutsOfTheFirst) {
  const auto store = std::make_shared<VariableStore>();
  const auto session = NewSession(store);
  ASSERT_TRUE(session->Initialize().ok());
  const Plan& train = PlanOf(*session, {{x_}, {loss_}, {train_}}, Feed());
  EXPECT_TRUE(store->Find("first")->settled);
  const Layout first = store->Find("first")->layout;
  const Layout second = store->Find("second")->layout;

  const auto other = NewSession(store);
  const Plan& eval = PlanOf(*other, {{x_}, {y_}, {}}, Feed());
  EXPECT_LE(eval.stats().reorders, train.stats().reorders) << eval.ToString();
  EXPECT_EQ(store->Find("first")->layout, first);
  EXPECT_EQ(store->Find("second")->layout, second);
  // Another batch size is another plan on the same variables.
  const Plan& wide = PlanOf(*session, {{x_}, {loss_}, {train_}}, Feed(6));
  EXPECT_NE(&wide, &train);
  ExpectOnlyInputAndFilterReorders(wide, 6);
  EXPECT_EQ(store->Find("first")->layout, first);
}

TEST_F(ConvPlanTest, TrainingAndEvaluationShareVariables) {
  const auto store = std::make_shared<VariableStore>();
  const auto train = NewSession(store);
  const auto eval = NewSession(store);
  ASSERT_TRUE(train->Initialize().ok());
  const Tensor x = Feed()[0];
  // The evaluation settles the layouts here.
  const float before = Floats(eval->Run({{x_, x}}, {loss_}).value()[0])[0];
  const std::vector<float> start = Floats(store->Read("second").value());
  EXPECT_EQ(start, Floats(Spread({3, 3, 32, 32}, 0.01F)));
  const float seen = Floats(train->Run({{x_, x}}, {loss_}, {train_}).value()[0])[0];
  EXPECT_FLOAT_EQ(seen, before) << "a step reads the variables as they were";
  const float after = Floats(eval->Run({{x_, x}}, {loss_}).value()[0])[0];
  EXPECT_LT(after, before);
  EXPECT_NE(Floats(store->Read("second").value()), start);
}

// The initialisers were compiled when the variables were plain. They run again when a training plan
// has moved them.
TEST_F(ConvPlanTest, APlanOfMovedVariablesIsCompiledAgain) {
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  VariableStore& store = session->variables();
  EXPECT_FALSE(store.Find("second")->settled) << "an assignment leaves the layout open";
  const Tensor x = Feed()[0];
  const std::vector<Tensor> first = session->Run({{x_, x}}, {loss_}, {train_}).value();
  ASSERT_FALSE(store.Find("second")->layout.is_plain());
  EXPECT_NE(Floats(store.Read("second").value()), Floats(Spread({3, 3, 32, 32}, 0.01F)));
  ASSERT_TRUE(session->Initialize().ok());
  EXPECT_FALSE(store.Find("second")->layout.is_plain());
  EXPECT_EQ(Floats(store.Read("second").value()), Floats(Spread({3, 3, 32, 32}, 0.01F)));
  const std::vector<Tensor> again = session->Run({{x_, x}}, {loss_}, {train_}).value();
  EXPECT_EQ(Floats(again[0]), Floats(first[0]));
}

TEST_F(ConvPlanTest, AConstantFilterIsConvertedOnce) {
  const Value filter = op::Const(b_, Spread({3, 3, 16, 32}, 0.01F));
  const Value y = op::Conv2D(b_, op::Relu(b_, op::Conv2D(b_, x_, filter)),
                             op::Const(b_, Spread({3, 3, 32, 32}, 0.01F)));
  const auto session = NewSession();
  const Plan& plan = PlanOf(*session, {{x_}, {y}, {}}, Feed());
  EXPECT_LE(plan.stats().reorders, 1) << plan.ToString();
  ASSERT_TRUE(session->Initialize().ok());
  const Tensor x = Feed()[0];
  EXPECT_EQ(Floats(session->Run({{x_, x}}, {y}).value()[0]),
            Floats(session->Run({{x_, x}}, {y_}).value()[0]));
}

TEST_F(PlanTest, StaleDirectly) {
  const Shape shape{1, 5, 2, 2};
  const Value v = op::Variable(b_, "v", op::Const(b_, Spread(shape)));
  const Value y = Op("TestPlain", {v});
  const Value fetches[] = {y};
  VariableStore store;
  Device device(0, 1);
  pass::SpecializedGraph graph = pass::Specialize(graph_, {}, fetches, {}).value();
  const auto plan = Plan::Compile(std::move(graph), store, device).value();
  ASSERT_TRUE(store.Write("v", Spread(shape)).ok());
  std::vector<Tensor> results(1);
  ASSERT_TRUE(plan->Run({}, results, {}, nullptr).ok());
  EXPECT_EQ(Floats(results[0]), Floats(Spread(shape)));
  ASSERT_TRUE(Relayout(*store.Find("v"), BlockedChannels(shape)).ok());
  const Status status = plan->Run({}, results, {}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("variable 'v' has moved to another layout"));
}

TEST_F(PlanTest, AdaptedValuesAreShared) {
  const Value x = Input(DType::kFloat32, {2, 5, 3, 4});
  const Value a = Op("TestBlocked", {x});
  const Value b = Op("TestBlocked", {x});
  const Value c = Op("TestBlocked", {Op("TestBlocked", {a})});
  const auto session = NewSession();
  const Tensor value = Spread({2, 5, 3, 4});
  const Plan& plan = PlanOf(*session, {{x}, {a, b, c}, {}}, {value});
  EXPECT_EQ(plan.stats().reorders, 1) << plan.ToString();
  EXPECT_EQ(Count(plan, "Fetch"), 3) << plan.ToString();
  for (const Tensor& result : session->Run({{x, value}}, {a, b, c}).value()) {
    EXPECT_EQ(Floats(result), Floats(value));
  }
}

TEST_F(PlanTest, LayoutsThatDifferAreConvertedInBetween) {
  const Value x = Input(DType::kFloat32, {2, 5, 3, 4});
  const Value y = Op("TestPlain", {Op("TestBlocked", {Op("TestPlain", {x})})});
  const auto session = NewSession();
  const Tensor value = Spread({2, 5, 3, 4});
  const Plan& plan = PlanOf(*session, {{x}, {y}, {}}, {value});
  EXPECT_EQ(plan.stats().reorders, 2) << plan.ToString();
  EXPECT_EQ(Floats(session->Run({{x, value}}, {y}).value()[0]), Floats(value));
}

// A copy of a variable in another layout, made before the variable is written, is not what a reader
// behind the write may see.
TEST_F(PlanTest, ReadersBehindAWriteConvertTheNewValue) {
  const Shape shape{1, 5, 2, 2};
  const Value v = op::Variable(b_, "v", op::Const(b_, Spread(shape)));
  const Value settle = Op("TestPlain", {v});
  const Value old = Op("TestBlocked", {v});
  const Value moved = op::AssignAdd(b_, v, op::Const(b_, Spread(shape)));
  const Value by_data = Op("TestBlocked", {v, moved});
  Value by_control;
  {
    const ControlScope controls(b_, {moved});
    by_control = Op("TestBlocked", {v});
  }
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  ASSERT_TRUE(session->Run({}, {settle}).ok());
  ASSERT_TRUE(session->variables().Find("v")->layout.is_plain());
  const std::vector<Tensor> out = session->Run({}, {by_data, by_control, old}).value();
  EXPECT_EQ(Floats(out[2]), Floats(Spread(shape)));
  EXPECT_EQ(Floats(out[0]), Floats(Spread(shape, 0.2F)));
  EXPECT_EQ(Floats(out[1]), Floats(Spread(shape, 0.2F)));
}

// bfloat16 without a kernel: float32 between conversions.
TEST_F(PlanTest, BFloat16RunsInFloat32BetweenConversions) {
  const Value x = Input(DType::kBFloat16, {3});
  const Value y = Op("TestFloat32", {x});
  const auto session = NewSession();
  const Tensor value =
      Tensor::From<BFloat16>(Shape{3}, {BFloat16::FromFloat(1.0F), BFloat16::FromFloat(-2.5F),
                                        BFloat16::FromFloat(1.0078125F)})
          .value();
  const Plan& plan = PlanOf(*session, {{x}, {y}, {}}, {value});
  EXPECT_EQ(Count(plan, "Convert"), 2) << plan.ToString();
  EXPECT_EQ(Count(plan, "TestFloat32"), 1) << plan.ToString();
  EXPECT_THAT(plan.ToString(), HasSubstr("float32 [3] plain"));
  const Tensor result = session->Run({{x, value}}, {y}).value()[0];
  EXPECT_EQ(result.dtype(), DType::kBFloat16);
  // 3.0234375 lies between 3.015625 and 3.03125, as far from both: to even.
  EXPECT_THAT(result.ToDoubles(), ElementsAre(3, -7.5, 3.03125));
}

TEST_F(PlanTest, BFloat16RoundsEveryResult) {
  const Value x = Input(DType::kBFloat16, {-1});
  const Value y = op::Cast(b_, op::Mul(b_, x, x), DType::kFloat32);
  const auto session = NewSession();
  const Tensor in =
      Tensor::From<BFloat16>(Shape{2}, {BFloat16::FromFloat(1.0078125F), BFloat16::FromFloat(3)})
          .value();
  // 1.0078125^2 = 1.01568...: the nearest bfloat16 is 1.015625.
  EXPECT_THAT(Floats(session->Run({{x, in}}, {y}).value()[0]), ElementsAre(1.015625F, 9.0F));
}

TEST_F(PlanTest, TheRestRunsItsReference) {
  const Value x = Input(DType::kFloat64, {3});
  const Value y = op::Tanh(b_, op::Exp(b_, x));
  const auto session = NewSession();
  const Tensor value = Tensor::From<double>(Shape{3}, {0.1, -3, 0.7}).value();
  const Plan& plan = PlanOf(*session, {{x}, {y}, {}}, {value});
  EXPECT_EQ(plan.stats().reorders, 0) << plan.ToString();
  EXPECT_EQ(Count(plan, "Tanh"), 1) << plan.ToString();
  const Tensor result = session->Run({{x, value}}, {y}).value()[0];
  for (size_t i = 0; i < 3; ++i) {
    // To the last digits of float64, far beyond float32.
    EXPECT_NEAR(result.values<double>()[i], std::tanh(std::exp(value.values<double>()[i])), 1e-15);
  }
}

TEST_F(PlanTest, VariablesOfEveryFloatingTypeAreUpdated) {
  const Value v =
      op::Variable(b_, "v", op::Const(b_, Tensor::From<double>(Shape{2}, {1.0 / 3, 2})));
  const Value add = op::AssignAdd(b_, v, op::Const(b_, Tensor::From<double>(Shape{2}, {1, 1e-12})));
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const Tensor result = session->Run({}, {add}).value()[0];
  EXPECT_THAT(result.ToDoubles(), ElementsAre(1.0 / 3 + 1, 2 + 1e-12));
  EXPECT_THAT(session->variables().Read("v").value().ToDoubles(),
              ElementsAre(1.0 / 3 + 1, 2 + 1e-12));
}

// A reference works on plain memory; the variable stays in the layout that other kernels want.
TEST_F(PlanTest, AReferenceUpdatesABlockedVariable) {
  const Shape shape{1, 5, 2, 2};
  const Value v =
      op::Variable(b_, "v", op::Cast(b_, op::Const(b_, Spread(shape, 1.0F)), DType::kBFloat16));
  const Value y = Op("TestBlocked", {v});
  const Value add =
      op::AssignAdd(b_, v, op::Cast(b_, op::Const(b_, Spread(shape, 2.0F)), DType::kBFloat16));
  const auto session = NewSession();
  ASSERT_TRUE(session->Initialize().ok());
  const std::vector<Tensor> out = session->Run({}, {y, add}).value();
  EXPECT_FALSE(session->variables().Find("v")->layout.is_plain());
  EXPECT_EQ(out[0].ToDoubles(), Spread(shape, 1.0F).ToDoubles());
  EXPECT_EQ(out[1].ToDoubles(), Spread(shape, 3.0F).ToDoubles());
  EXPECT_EQ(session->variables().Read("v").value().ToDoubles(), Spread(shape, 3.0F).ToDoubles());
}

TEST_F(PlanTest, NoKernelAndNoReferenceIsAnErrorThatNamesTheOp) {
  const Value x = Input(DType::kFloat64, {3});
  const Value y = Op("TestNothing", {x});
  const auto session = NewSession();
  const Tensor value = Tensor::From<double>(Shape{3}, {1, 2, 3}).value();
  const Status status = session->Run({{x, value}}, {y}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), HasSubstr("TestNothing has no CPU kernel for (float64)"));
  EXPECT_THAT(status.ToString(), HasSubstr("plan_test.cc:"));
}

TEST_F(PlanTest, AFailingKernelNamesItsOp) {
  const Value x = Input(DType::kFloat32, {1});
  const Value y = Op("TestFailing", {x});
  const auto session = NewSession();
  const Status status = session->Run({{x, Spread({1})}}, {y}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("the kernel refuses"));
  EXPECT_THAT(status.ToString(), HasSubstr("op TestFailing 'TestFailing' ("));
}

// Failing steps initialise nothing.
TEST_F(PlanTest, AStepThatFailsInitialisesNothing) {
  const Value x = Input(DType::kFloat32, {1});
  const Value v = op::Variable(b_, "v", Op("TestFailing", {x}));
  const auto session = NewSession();
  const Value assign = graph_.Collection(collection::kInitializers)[0];
  EXPECT_FALSE(session->Run({{x, Spread({1})}}, {}, {assign.node}).ok());
  EXPECT_EQ(session->Run({}, {v}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(PlanTest, AProfileHasAnEntryForEachKernel) {
  const Value x = Input(DType::kFloat32, {2, 8, 3, 4});
  const Value y = op::Tanh(b_, Op("TestBlocked", {x}));
  const auto session = NewSession();
  Callable* callable = session->Prepare({{x}, {y}, {}}).value();
  const std::vector<Tensor> feeds = {Spread({2, 8, 3, 4})};
  std::vector<Tensor> fetches(1);
  StepProfile profile;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(callable->Run(feeds, fetches, {}, &profile).ok());
  }
  const Plan& plan = *callable->PlanFor(feeds).value();
  ASSERT_EQ(profile.entries.size(), static_cast<size_t>(plan.stats().kernels));
  std::vector<std::string> kinds;
  for (const StepProfile::Entry& entry : profile.entries) {
    kinds.push_back(entry.kind);
    EXPECT_EQ(entry.calls, 3);
    EXPECT_GE(entry.seconds, 0);
    EXPECT_FALSE(entry.name.empty());
  }
  EXPECT_THAT(kinds, ElementsAre("Reorder", "TestBlocked", "Tanh", "Fetch"));
  ASSERT_TRUE(callable->Run(feeds, fetches, {}).ok());
  EXPECT_EQ(profile.entries[0].calls, 3);
}

// Plans of one device share its memory, which moves when a larger plan comes.
TEST_F(PlanTest, MemoryThatMovesIsFoundAgain) {
  const Value x = Input(DType::kFloat32, {-1});
  const Value hidden = op::Exp(b_, x);
  const Value y = op::Add(b_, op::ReduceSum(b_, hidden), hidden);
  const auto session = NewSession();
  const auto run = [&](const Tensor& value) {
    return Floats(session->Run({{x, value}}, {y}).value()[0]);
  };
  const Tensor small = Tensor::From<float>(Shape{2}, {0, 1}).value();
  const std::vector<float> expected = run(small);
  EXPECT_FLOAT_EQ(expected[0], 2 + std::exp(1.0F));
  const Tensor large = Tensor::Zeros(DType::kFloat32, Shape{100000}).value();
  EXPECT_EQ(run(large).back(), 100001.0F);
  EXPECT_EQ(run(small), expected);
}

TEST(DeviceTest, MemoryGrowsAndStays) {
  Device device(1, 2);
  EXPECT_EQ(device.index(), 1);
  EXPECT_EQ(device.threads(), 2);
  const MutexLock lock(device.mutex());
  void* first = device.Arena(1000).value();
  std::memset(first, 1, 1000);
  EXPECT_EQ(device.Arena(10).value(), first);
  EXPECT_EQ(device.Arena(1000).value(), first);
  std::memset(device.Arena(1 << 20).value(), 1, 1 << 20);
}

TEST_F(PlanTest, TwoDevicesRunAtTheSameTime) {
  const Value x = Input(DType::kFloat32, {-1});
  const Value y = op::Tanh(b_, op::ReduceSum(b_, op::Exp(b_, x)));
  const auto session = Session::Create(graph_, {.devices = 2}).value();
  const Tensor value = Spread({1000});
  const std::vector<float> expected = Floats(session->Run({{x, value}}, {y}).value()[0]);
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int device = 0; device < 2; ++device) {
    threads.emplace_back([&, device] {
      Callable* callable = session->Prepare({{x}, {y}, {}}, device).value();
      std::vector<Tensor> fetches(1);
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(callable->Run(std::vector<Tensor>{value}, fetches, {}).ok());
        EXPECT_EQ(Floats(fetches[0]), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace lockstep::exec
