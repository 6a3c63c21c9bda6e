#include <gmock/gmock.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/bias_add.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/reshape.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/testing/fusion_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class FuseBiasTest : public FusionFixture {
 protected:
  Value Product() { return op::MatMul(b_, Input({4, 6}, "a"), Input({6, 5}, "b")); }

  Value Image() {
    return op::Conv2D(b_, Input({2, 7, 6, 3}, "image"), Input({3, 3, 3, 8}, "filter"),
                      {.strides = {2, 1}});
  }

  std::vector<std::string> FusedOps(const std::vector<Value>& fetches,
                                    const std::vector<Node*>& targets = {}) {
    const SpecializedGraph fused = FuseBias(Specialized(fetches, targets)).value();
    ExpectSameNumbers(fused, fetches);
    return Ops(fused);
  }
};

TEST_F(FuseBiasTest, MatMulWithBias) {
  const Value y = op::BiasAdd(b_, Product(), Input({5}, "bias"));
  EXPECT_THAT(FusedOps({y}), ElementsAre("FusedMatMul"));
}

TEST_F(FuseBiasTest, MatMulWithBiasAndRelu) {
  const Value y = op::Relu(b_, op::BiasAdd(b_, Product(), Input({5}, "bias")));
  const SpecializedGraph fused = FuseBias(Specialized({y})).value();
  ASSERT_THAT(Ops(fused), ElementsAre("FusedMatMul"));
  EXPECT_EQ(fused.fetches[0].node->attrs.GetString("activation"), "relu");
  EXPECT_EQ(fused.fetches[0].node->name, y.node->name);
  ExpectSameNumbers(fused, {y});
}

TEST_F(FuseBiasTest, TransposedOperandsStayTransposed) {
  const Value product = op::MatMul(b_, Input({6, 4}, "a"), Input({5, 6}, "b"), true, true);
  EXPECT_THAT(FusedOps({op::BiasAdd(b_, product, Input({5}, "bias"))}), ElementsAre("FusedMatMul"));
}

TEST_F(FuseBiasTest, Conv2DWithBiasAndRelu) {
  const Value y = op::Relu(b_, op::BiasAdd(b_, Image(), Input({8}, "bias")));
  EXPECT_THAT(FusedOps({y}), ElementsAre("FusedConv2D"));
}

TEST_F(FuseBiasTest, Conv2DWithChannelsFirst) {
  const Value image = op::Conv2D(b_, Input({2, 3, 7, 6}, "image"), Input({3, 3, 3, 8}, "filter"),
                                 {.data_format = "NCHW"});
  EXPECT_THAT(FusedOps({op::BiasAdd(b_, image, Input({8}, "bias"), "NCHW")}),
              ElementsAre("FusedConv2D"));
}

TEST_F(FuseBiasTest, ABiasAlongAnotherAxisIsNotTheConvolutions) {
  // Rows of the NHWC result are channels to an NCHW bias.
  const Value y = op::BiasAdd(b_, Image(), Input({4}, "bias"), "NCHW");
  EXPECT_THAT(FusedOps({y}), ElementsAre("BiasAdd", "Conv2D"));
}

TEST_F(FuseBiasTest, ABatchOfMatricesStays) {
  const Value product = op::MatMul(b_, Input({2, 4, 6}, "a"), Input({2, 6, 5}, "b"));
  EXPECT_THAT(FusedOps({op::BiasAdd(b_, product, Input({5}, "bias"))}),
              ElementsAre("BiasAdd", "MatMul"));
}

TEST_F(FuseBiasTest, AFetchedProductStays) {
  const Value product = Product();
  const Value y = op::Relu(b_, op::BiasAdd(b_, product, Input({5}, "bias")));
  EXPECT_THAT(FusedOps({product, y}), ElementsAre("BiasAdd", "MatMul", "Relu"));
}

TEST_F(FuseBiasTest, AFetchedSumKeepsItsRelu) {
  const Value sum = op::BiasAdd(b_, Product(), Input({5}, "bias"));
  EXPECT_THAT(FusedOps({sum, op::Relu(b_, sum)}), ElementsAre("FusedMatMul", "Relu"));
}

TEST_F(FuseBiasTest, ASecondReaderOfTheProductStopsFusion) {
  const Value product = Product();
  const Value y = op::BiasAdd(b_, product, Input({5}, "bias"));
  EXPECT_THAT(FusedOps({y, op::Tanh(b_, product)}), ElementsAre("BiasAdd", "MatMul", "Tanh"));
}

TEST_F(FuseBiasTest, ASecondReaderOfTheSumKeepsItsRelu) {
  const Value sum = op::BiasAdd(b_, Product(), Input({5}, "bias"));
  EXPECT_THAT(FusedOps({op::Relu(b_, sum), op::Tanh(b_, sum)}),
              ElementsAre("FusedMatMul", "Relu", "Tanh"));
}

TEST_F(FuseBiasTest, ControlEdgesStopFusion) {
  const Value product = Product();
  const Value bias = Input({5}, "bias");
  const Value sum = op::BiasAdd(b_, product, bias);
  Value other;
  {
    const ControlScope controls(b_, {product});
    other = op::Tanh(b_, bias);
  }
  EXPECT_THAT(FusedOps({sum, other}), ElementsAre("BiasAdd", "MatMul", "Tanh"));
  Value late;
  {
    const ControlScope controls(b_, {other});
    late = op::BiasAdd(b_, product, bias);
  }
  EXPECT_THAT(FusedOps({late}), ElementsAre("BiasAdd", "MatMul", "Tanh"));
}

TEST_F(FuseBiasTest, ATargetStays) {
  const Value product = Product();
  const Value y = op::BiasAdd(b_, product, Input({5}, "bias"));
  EXPECT_THAT(FusedOps({y}, {product.node}), ElementsAre("BiasAdd", "MatMul"));
  // The last node of a group may be one.
  const Value z = op::BiasAdd(b_, op::Identity(b_, Product()), Input({5}, "bias"));
  EXPECT_THAT(FusedOps({z}, {y.node}), ElementsAre("BiasAdd", "FusedMatMul", "Identity", "MatMul"));
}

// The product reads w as it was, the bias is what was written behind it: as one node, both would be
// read after the write.
TEST_F(FuseBiasTest, AProductDoesNotMovePastAWrite) {
  const Value w = op::Variable(b_, "w", Input({6, 5}, "initial"));
  const Value bias = op::Variable(b_, "bias", Input({5}, "initial_bias"));
  const Value a = Input({4, 6}, "a");
  const Value product = op::MatMul(b_, a, w);
  Value new_bias;
  {
    const ControlScope controls(b_, {op::AssignAdd(b_, w, w)});
    new_bias = op::AssignAdd(b_, bias, bias);
  }
  const Value y = op::BiasAdd(b_, product, new_bias);
  EXPECT_THAT(Ops(FuseBias(Specialized({y})).value()),
              ElementsAre("AssignAdd", "AssignAdd", "BiasAdd", "MatMul"));
  // Both after the same writes: fused.
  const Value square = op::Mul(b_, w, op::Reshape(b_, new_bias, Shape{1, 5}));
  const Value z = op::BiasAdd(b_, op::MatMul(b_, a, square), new_bias);
  EXPECT_THAT(Ops(FuseBias(Specialized({z})).value()), Contains("FusedMatMul"));
}

}  // namespace
}  // namespace lockstep::pass
