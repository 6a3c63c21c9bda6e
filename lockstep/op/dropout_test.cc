#include "lockstep/op/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/run_op.h"

namespace lockstep::op {
namespace {

Result<std::vector<Tensor>> RunDropout(const Tensor& x, const AttrMap& attrs,
                                       const StepInfo& step) {
  return testing::RunOp("Dropout", {&x, 1}, attrs, {.step = step});
}

TEST(DropoutTest, KeepsTheRightShareAndScalesIt) {
  const Tensor ones = *Tensor::From<float>(Shape{20000}, std::vector<float>(20000, 1.0F));
  const auto outputs = RunDropout(ones, {{"rate", 0.2}}, {.seed = 3});
  ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
  int kept = 0;
  for (const float y : (*outputs)[0].values<float>()) {
    ASSERT_TRUE(y == 0.0F || y == 1.25F) << y;
    kept += y != 0.0F ? 1 : 0;
  }
  // Five standard errors.
  EXPECT_NEAR(kept / 20000.0, 0.8, 5.0 * std::sqrt(0.16 / 20000.0));
}

TEST(DropoutTest, TheMaskDependsOnStepReplicaAndStream) {
  const Tensor ones = *Tensor::From<float>(Shape{100}, std::vector<float>(100, 1.0F));
  const AttrMap attrs = {{"rate", 0.5}};
  const auto base = RunDropout(ones, attrs, {.seed = 3, .step = 1, .replica = 0});
  ASSERT_TRUE(base.ok());
  const std::vector<double> values = (*base)[0].ToDoubles();
  EXPECT_EQ((*RunDropout(ones, attrs, {.seed = 3, .step = 1, .replica = 0}))[0].ToDoubles(),
            values);
  EXPECT_NE((*RunDropout(ones, attrs, {.seed = 4, .step = 1, .replica = 0}))[0].ToDoubles(),
            values);
  EXPECT_NE((*RunDropout(ones, attrs, {.seed = 3, .step = 2, .replica = 0}))[0].ToDoubles(),
            values);
  EXPECT_NE((*RunDropout(ones, attrs, {.seed = 3, .step = 1, .replica = 1}))[0].ToDoubles(),
            values);
  const AttrMap other = {{"rate", 0.5}, {"stream", std::string("other")}};
  EXPECT_NE((*RunDropout(ones, other, {.seed = 3, .step = 1, .replica = 0}))[0].ToDoubles(),
            values);
}

TEST(DropoutTest, RateZeroIsTheInputAndOneIsRefused) {
  Graph graph(Catalog());
  Builder builder(graph);
  const Value x = Placeholder(builder, DType::kFloat32, Shape{2});
  EXPECT_EQ(Dropout(builder, x, 0.0), x);
  EXPECT_FALSE(Dropout(builder, x, 1.0).valid());
  EXPECT_NE(builder.status().message().find("'rate' is 1"), std::string::npos)
      << builder.status().ToString();
}

}  // namespace
}  // namespace lockstep::op
