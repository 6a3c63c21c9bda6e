#include "lockstep/pass/fuse.h"

#include <gmock/gmock.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/batch_norm.h"
#include "lockstep/op/bias_add.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reshape.h"
#include "lockstep/op/unary.h"
#include "lockstep/pass/testing/fusion_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

using FuseTest = FusionFixture;

// A small network whose parts are fused by all of the passes, with its gradients.
TEST_F(FuseTest, ANetworkWithItsGradients) {
  const Value filter = Input({3, 3, 2, 8}, "filter");
  const Value image = op::Conv2D(b_, Input({2, 6, 6, 2}), filter);
  const Value norm = op::BatchNorm(b_, image, Input({8}, "scale"), Input({8}, "offset")).y;
  const Value hidden = op::Reshape(b_, op::Relu(b_, norm), Shape{2, -1});
  const Value w = Input({288, 3}, "w");
  const Value y = op::BiasAdd(b_, op::MatMul(b_, hidden, w), Input({3}, "bias"));
  const Value loss =
      op::ReduceSum(b_, op::Square(b_, op::Sub(b_, op::Tanh(b_, y), Input({2, 3}, "target"))));
  const std::vector<Value> fetches = {loss, Grad(loss, filter), Grad(loss, w)};
  const SpecializedGraph fused = Fuse(Specialized(fetches)).value();
  EXPECT_THAT(Ops(fused), IsSupersetOf({"FusedBatchNormRelu", "FusedBatchNormReluGrad",
                                        "FusedElementwise", "FusedMatMul"}));
  ExpectSameNumbers(fused, fetches, 1e-3);
}

// Relu behind a bias belongs to the product, not to the chain that follows.
TEST_F(FuseTest, TheReluOfAProductIsNotElementwise) {
  const Value product = op::MatMul(b_, Input({4, 6}, "a"), Input({6, 5}, "b"));
  const Value y = op::Relu(b_, op::BiasAdd(b_, product, Input({5}, "bias")));
  const std::vector<Value> fetches = {op::Exp(b_, op::Tanh(b_, y))};
  const SpecializedGraph fused = Fuse(Specialized(fetches)).value();
  EXPECT_THAT(Ops(fused), ElementsAre("FusedElementwise", "FusedMatMul"));
  ExpectSameNumbers(fused, fetches);
}

TEST_F(FuseTest, NothingToFuse) {
  const Value y = op::MatMul(b_, Input({2, 3}, "a"), Input({3, 4}, "b"));
  const SpecializedGraph fused = Fuse(Specialized({y})).value();
  EXPECT_THAT(Ops(fused), ElementsAre("MatMul"));
  ExpectSameNumbers(fused, {y});
}

}  // namespace
}  // namespace lockstep::pass
