#include "lockstep/op/fused_elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/op/activation.h"
#include "lockstep/op/add_n.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/elementwise_program.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/run_op.h"
#include "lockstep/op/unary.h"

namespace lockstep::op {
namespace {

class FusedElementwiseTest : public ::testing::Test {
 protected:
  Value Input(const Shape& shape, DType dtype = DType::kFloat32) {
    return Placeholder(b_, dtype, shape);
  }

  Graph graph_{Catalog()};
  Builder b_{graph_};
};

TEST_F(FusedElementwiseTest, ChainBecomesAProgram) {
  const Value x = Input({2, 2});
  const Value y = Input({2, 2});
  const Value product = Mul(b_, x, y);
  const Value leaky = LeakyRelu(b_, product, 0.5);
  const Value sum = Add(b_, leaky, x);
  ASSERT_TRUE(b_.status().ok());
  const Node* const nodes[] = {product.node, leaky.node, sum.node};
  const Result<ElementwiseChain> chain = MakeElementwiseChain(nodes);
  ASSERT_TRUE(chain.ok()) << chain.status().ToString();
  EXPECT_EQ(chain->program, "Mul 0 1;LeakyRelu(0.5) 2;Add 3 0");
  EXPECT_EQ(chain->inputs, (std::vector<Value>{x, y}));
}

TEST_F(FusedElementwiseTest, AddNBecomesAdditionsInOrder) {
  const Value x = Input({3});
  const Value y = Input({3});
  const Value sum = AddN(b_, {x, y, x});
  const Node* const nodes[] = {sum.node};
  const Result<ElementwiseChain> chain = MakeElementwiseChain(nodes);
  ASSERT_TRUE(chain.ok());
  EXPECT_EQ(chain->program, "Add 0 1;Add 2 0");
}

TEST_F(FusedElementwiseTest, RunsTheProgram) {
  const Result<Tensor> x = Tensor::From<float>(Shape{4}, {1, -2, 3, -4});
  const Result<Tensor> half = Tensor::Scalar<float>(0.5F);
  ASSERT_TRUE(x.ok() && half.ok());
  const Tensor inputs[] = {*x, *half};
  const auto result = testing::RunOp("FusedElementwise", inputs,
                                     {{"program", std::string("Mul 0 1;Relu 2;Sub 3 0")}});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  const auto y = (*result)[0].values<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{-0.5F, 2, -1.5F, 4}));
}

TEST_F(FusedElementwiseTest, OnlyFloat32OfOneShapeFuses) {
  const Value x = Input({2, 3});
  EXPECT_TRUE(IsFusible(*Relu(b_, x).node));
  EXPECT_TRUE(IsFusible(*Mul(b_, x, Scalar(b_, 2.0)).node));
  EXPECT_FALSE(IsFusible(*Add(b_, x, Input({3})).node));
  EXPECT_FALSE(IsFusible(*Square(b_, Input({3}, DType::kInt32)).node));
  EXPECT_FALSE(IsFusible(*x.node));
  // The open dimensions may turn out to be 1 and 5.
  EXPECT_FALSE(IsFusible(*Add(b_, Input({-1, 3}), Input({-1, 3})).node));
  EXPECT_TRUE(IsFusible(*Exp(b_, Input({-1, 3})).node));
  EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
}

TEST_F(FusedElementwiseTest, NodesOutOfOrderAreRefused) {
  const Value first = Exp(b_, Input({2}));
  const Value second = Neg(b_, first);
  const Node* const nodes[] = {second.node, first.node};
  EXPECT_FALSE(MakeElementwiseChain(nodes).ok());
}

TEST_F(FusedElementwiseTest, EveryElementwiseOpOfTheCatalogIsAStep) {
  for (const OpDef& op : Catalog().ops()) {
    EXPECT_EQ(op.elementwise, FindStep(op.name) != nullptr || op.name == "AddN") << op.name;
  }
}

TEST_F(FusedElementwiseTest, HostileProgramsAreRefused) {
  for (const char* program :
       {"", ";", "Relu", "Relu 1", "Relu -1", "Relu 0 0", "Relu 0;", "Relu  0", "MatMul 0 0",
        "LeakyRelu 0", "LeakyRelu( 0", "LeakyRelu() 0", "LeakyRelu(x) 0", "LeakyRelu(1,2) 0",
        "Relu(1) 0", "Relu 1;Relu 0", "Relu 99999999999999999999", "FusedElementwise 0"}) {
    EXPECT_FALSE(ParseProgram(program, 1).ok()) << program;
  }
  std::string too_long = "Relu 0";
  for (int i = 0; i < kMaxProgramSteps; ++i) {
    too_long += ";Relu 0";
  }
  EXPECT_FALSE(ParseProgram(too_long, 1).ok());
  EXPECT_TRUE(ParseProgram("Relu 0;Clip(-1e3,inf) 1", 1).ok());
}

TEST_F(FusedElementwiseTest, RegistersAreReused) {
  const auto steps = ParseProgram("Exp 0;Neg 1;Abs 2;Add 3 0;Sqrt 4", 1);
  ASSERT_TRUE(steps.ok());
  EXPECT_EQ(AssignRegisters(*steps, 1).count, 1);
  const auto wide = ParseProgram("Exp 0;Neg 0;Abs 0;Add 1 2;Add 4 3", 1);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(AssignRegisters(*wide, 1).count, 3);
}

}  // namespace
}  // namespace lockstep::op
