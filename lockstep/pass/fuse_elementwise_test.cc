#include <gmock/gmock.h>

#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/const.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/fuse.h"
#include "lockstep/pass/testing/fusion_fixture.h"

namespace lockstep::pass {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class FuseElementwiseTest : public FusionFixture {
 protected:
  SpecializedGraph Fused(const std::vector<Value>& fetches,
                         const std::vector<Node*>& targets = {}) {
    SpecializedGraph fused = FuseElementwise(Specialized(fetches, targets)).value();
    ExpectSameNumbers(fused, fetches);
    return fused;
  }
};

TEST_F(FuseElementwiseTest, ATreeBecomesOneNode) {
  const Value x = Input({5, 7});
  const Value y = Input({5, 7}, "y");
  const Value tree =
      op::Add(b_, op::Mul(b_, op::Tanh(b_, x), y), op::Square(b_, op::Sub(b_, x, y)));
  const SpecializedGraph fused = Fused({tree});
  EXPECT_THAT(Ops(fused), ElementsAre("FusedElementwise"));
  // Each value from outside is read once.
  EXPECT_THAT(fused.fetches[0].node->inputs, SizeIs(2));
}

TEST_F(FuseElementwiseTest, ScalarsComeFromOutside) {
  const Value x = Input({4, 3});
  const Value scale = op::Exp(b_, Input({}, "log_scale"));
  // The exponential is computed once, not once for each element.
  EXPECT_THAT(Ops(Fused({op::Relu(b_, op::Mul(b_, x, scale))})),
              ElementsAre("Exp", "FusedElementwise"));
}

TEST_F(FuseElementwiseTest, AnExpressionOfScalarsIsOneNodeToo) {
  const Value x = Input({});
  EXPECT_THAT(Ops(Fused({op::Add(b_, op::Exp(b_, x), op::Square(b_, x))})),
              ElementsAre("FusedElementwise"));
}

TEST_F(FuseElementwiseTest, ABroadcastRowStays) {
  const Value x = Input({4, 3});
  const Value row = Input({3}, "row");
  EXPECT_THAT(Ops(Fused({op::Tanh(b_, op::Mul(b_, x, row))})), ElementsAre("Mul", "Tanh"));
}

TEST_F(FuseElementwiseTest, AFetchedValueStays) {
  const Value inner = op::Tanh(b_, Input({6}));
  EXPECT_THAT(Ops(Fused({inner, op::Exp(b_, inner)})), ElementsAre("Exp", "Tanh"));
}

TEST_F(FuseElementwiseTest, ATargetStays) {
  const Value inner = op::Tanh(b_, Input({6}));
  EXPECT_THAT(Ops(Fused({op::Exp(b_, inner)}, {inner.node})), ElementsAre("Exp", "Tanh"));
}

TEST_F(FuseElementwiseTest, ASharedValueIsComputedOnce) {
  const Value shared = op::Tanh(b_, Input({6}));
  EXPECT_THAT(Ops(Fused({op::Exp(b_, shared), op::Square(b_, shared)})),
              ElementsAre("Exp", "Square", "Tanh"));
  // Twice by one node is shared too.
  EXPECT_THAT(Ops(Fused({op::Mul(b_, shared, shared)})), ElementsAre("Mul", "Tanh"));
}

TEST_F(FuseElementwiseTest, ControlEdgesStopFusion) {
  const Value x = Input({6});
  const Value inner = op::Tanh(b_, x);
  Value waits;
  {
    const ControlScope controls(b_, {inner});
    waits = op::MatMul(b_, Input({1, 1}, "a"), Input({1, 1}, "b"));
  }
  EXPECT_THAT(Ops(Fused({op::Exp(b_, inner), waits})), ElementsAre("Exp", "MatMul", "Tanh"));
  Value late;
  {
    const ControlScope controls(b_, {waits});
    late = op::Exp(b_, op::Square(b_, x));
  }
  EXPECT_THAT(Ops(Fused({late})), ElementsAre("Exp", "MatMul", "Square", "Tanh"));
}

TEST_F(FuseElementwiseTest, OtherTypesStay) {
  const Value x = op::Cast(b_, Input({6}), DType::kFloat64);
  EXPECT_THAT(Ops(Fused({op::Exp(b_, op::Tanh(b_, x))})), ElementsAre("Cast", "Exp", "Tanh"));
}

TEST_F(FuseElementwiseTest, ALongChainIsCutIntoKernels) {
  Value x = Input({9});
  for (int i = 0; i < 100; ++i) {
    x = i % 2 == 0 ? op::Tanh(b_, x) : op::Add(b_, x, op::Scalar(b_, 0.25));
  }
  const std::vector<std::string> ops = Ops(Fused({x}));
  EXPECT_THAT(ops, AllOf(SizeIs(::testing::Lt(10U)), Each(std::string("FusedElementwise"))));
}

TEST_F(FuseElementwiseTest, MoreInputsThanAKernelTakes) {
  Value sum = Input({3}, "first");
  for (int i = 0; i < 70; ++i) {
    sum = op::Add(b_, sum, Input({3}, "x" + std::to_string(i)));
  }
  const std::vector<std::string> ops = Ops(Fused({sum}));
  EXPECT_THAT(ops, SizeIs(::testing::Le(71U)));
}

// v as it was before the step times what it becomes: as one node, both would be read after.
TEST_F(FuseElementwiseTest, AReadDoesNotMovePastAWrite) {
  const Value v = op::Variable(b_, "v", op::Const(b_, Tensor::From<float>(Shape{2}, {1, 2})));
  const Value before = op::Square(b_, v);
  const Value after = op::AssignAdd(b_, v, Input({2}));
  const Value y = op::Add(b_, before, after);
  EXPECT_THAT(Ops(FuseElementwise(Specialized({y})).value()),
              ElementsAre("Add", "AssignAdd", "Square"));
  // Both behind the write: one node.
  const Value z = op::Add(b_, op::Square(b_, after), after);
  EXPECT_THAT(Ops(FuseElementwise(Specialized({z})).value()),
              ElementsAre("AssignAdd", "FusedElementwise"));
}

}  // namespace
}  // namespace lockstep::pass
