#include "lockstep/op/testing/run_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace lockstep::op::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSize = 5;

Status SameShape(InferContext& ctx) {
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status FromAttrs(InferContext& ctx) {
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), ctx.attrs().Get<Shape>("shape"));
  return OkStatus();
}

Kernel Running(std::function<void(const float* x, float* y)> body) {
  Kernel kernel;
  kernel.run = [body = std::move(body)](const KernelArgs& args) {
    body(args.in<float>(0), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

Result<Kernel> Doubling(const KernelRequest&) {
  return Running([](const float* x, float* y) {
    for (int64_t i = 0; i < kSize; ++i) {
      y[i] = 2.0F * x[i];
    }
  });
}

// Kernels with the mistakes that the runner is there to find.
Result<Kernel> ForgetsTheLast(const KernelRequest&) {
  return Running([](const float* x, float* y) { std::copy_n(x, kSize - 1, y); });
}

Result<Kernel> WritesTooMuch(const KernelRequest&) {
  return Running([](const float* x, float* y) {
    std::copy_n(x, kSize, y);
    y[kSize] = 1.0F;
  });
}

Result<Kernel> OffersAnotherSize(const KernelRequest&) {
  Kernel kernel = Running([](const float*, float*) {});
  kernel.in_place = {1};
  return kernel;
}

Result<Kernel> NamesNoInput(const KernelRequest&) {
  Kernel kernel = Running([](const float*, float*) {});
  kernel.alias = {2};
  return kernel;
}

// Copies memory in the transposed layout of a 2 x 3 matrix.
Result<Kernel> WantsTransposed(const KernelRequest& request) {
  const int64_t dims[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const Layout layout = Layout::Blocked(request.inputs[0].shape, dims, strides, {});
  Kernel kernel = Running([](const float* x, float* y) {
    for (int i = 0; i < 6; ++i) {
      y[i] = 10.0F * x[i] + static_cast<float>(i);
    }
  });
  kernel.input_layouts = {layout};
  kernel.output_layouts = {layout};
  return kernel;
}

Status Shrinks(const ReferenceContext& ctx) {
  ctx.outputs[0].clear();
  return OkStatus();
}

OpDef Source(std::string_view name) {
  return {.name = name,
          .summary = "a source",
          .attrs = {{"dtype", AttrType::kDType}, {"shape", AttrType::kShape}},
          .infer = FromAttrs};
}

OpDef Faulty(std::string_view name, KernelFn cpu) {
  return {.name = name,
          .summary = "a test op",
          .min_inputs = 1,
          .max_inputs = 2,
          .infer = SameShape,
          .cpu = cpu,
          .reference = Shrinks};
}

class RunOpTest : public ::testing::Test {
 protected:
  Result<NodeResult> Run(std::string_view op, const std::vector<Tensor>& inputs,
                         const RunOptions& options = {}) {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) {
      types.push_back({input.dtype(), input.shape()});
    }
    LS_ASSIGN_OR_RETURN(node_, MakeNode(graph_, op, types, {}));
    return RunKernel(*node_, inputs, options);
  }

  static Tensor Vector(int64_t size) {
    return Tensor::From<float>(Shape{size}, std::vector<float>(static_cast<size_t>(size), 3.0F))
        .value();
  }

  OpCatalog catalog_{
      {Source("Placeholder"), Faulty("Doubling", Doubling),
       Faulty("ForgetsTheLast", ForgetsTheLast), Faulty("WritesTooMuch", WritesTooMuch),
       Faulty("OffersAnotherSize", OffersAnotherSize), Faulty("NamesNoInput", NamesNoInput),
       Faulty("WantsTransposed", WantsTransposed), Faulty("NoKernel", nullptr)}};
  Graph graph_{catalog_};
  Node* node_ = nullptr;
};

TEST_F(RunOpTest, ReturnsWhatTheKernelMakes) {
  const auto result = Run("Doubling", {Vector(kSize)});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->outputs[0].ToDoubles(), std::vector<double>(kSize, 6.0));
}

TEST_F(RunOpTest, AnElementThatIsNotWrittenIsNan) {
  const auto result = Run("ForgetsTheLast", {Vector(kSize)});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(std::isnan(result->outputs[0].values<float>()[kSize - 1]));
  EXPECT_EQ(result->outputs[0].values<float>()[0], 3.0F);
}

TEST_F(RunOpTest, WritingBehindTheEndIsFound) {
  const auto result = Run("WritesTooMuch", {Vector(kSize)});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("behind the end"));
}

TEST_F(RunOpTest, TakingOverAnotherSizeIsFound) {
  const auto result = Run("OffersAnotherSize", {Vector(kSize), Vector(kSize + 1)});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("another size"));
}

TEST_F(RunOpTest, AliasOfAMissingInputIsFound) {
  EXPECT_FALSE(Run("NamesNoInput", {Vector(kSize)}).ok());
}

TEST_F(RunOpTest, NoKernelIsUnimplemented) {
  EXPECT_EQ(Run("NoKernel", {Vector(kSize)}).status().code(), StatusCode::kUnimplemented);
}

// Element (r, c) lies at r + 2 c.
TEST_F(RunOpTest, CopiesIntoAndOutOfTheKernelsLayout) {
  const Tensor x = Tensor::From<float>(Shape{2, 3}, {0, 1, 2, 3, 4, 5}).value();
  for (const InputLayout layout :
       {InputLayout::kPlain, InputLayout::kTransposed, InputLayout::kBlocked8}) {
    const auto result = Run("WantsTransposed", {x}, {.layout = layout});
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result->outputs[0].ToDoubles(), (std::vector<double>{0, 12, 24, 31, 43, 55}));
  }
}

TEST_F(RunOpTest, AReferenceOfTheWrongSizeIsFound) {
  ASSERT_TRUE(Run("Doubling", {Vector(kSize)}).ok());
  const DoubleTensor input = ToDoubleTensor(Vector(kSize));
  const auto result = RunReference(*node_, std::span<const DoubleTensor>(&input, 1));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("changed the size"));
}

TEST(MakeInputTest, FloatsAreDistinctAndInRange) {
  const auto input = MakeInput({.shape = Shape{60}, .low = -1.0, .high = 3.0}, 0);
  ASSERT_TRUE(input.ok());
  const std::vector<double> values = input->ToDoubles();
  EXPECT_EQ(std::set<double>(values.begin(), values.end()).size(), 60U);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1.0);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 3.0);
}

TEST(MakeInputTest, IntegersReachBothEnds) {
  const auto input = MakeInput({Shape{30}, DType::kInt64, 2.0, 5.0}, 1);
  ASSERT_TRUE(input.ok());
  const std::vector<double> values = input->ToDoubles();
  EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{2, 3, 4, 5}));
}

TEST(MakeInputTest, ExplicitValuesMustFillTheShape) {
  EXPECT_TRUE(MakeInput({.shape = Shape{2}, .values = {1, 2}}, 0).ok());
  EXPECT_FALSE(MakeInput({.shape = Shape{2}, .values = {1, 2, 3}}, 0).ok());
}

}  // namespace
}  // namespace lockstep::op::testing
