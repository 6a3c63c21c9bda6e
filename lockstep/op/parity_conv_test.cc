// Convolutions, pooling and normalisation against the numbers of other frameworks.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/op/batch_norm.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/const.h"
#include "lockstep/op/layer_norm.h"
#include "lockstep/op/pool.h"
#include "lockstep/op/testing/parity.h"

namespace lockstep::op::testing {
namespace {

// The op of the same name and attributes, with the inputs in order.
NamedValues SameOp(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  std::vector<Value> values;
  for (const ParityArray& input : c.inputs) {
    values.push_back(inputs.at(input.name));
  }
  return {{c.outputs[0].name, ctx.Add(c.op, std::move(values), c.attrs)}};
}

NamedValues GlobalAverage(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"y", GlobalAveragePool(ctx, inputs.at("x"), c.attrs.GetString("data_format"))}};
}

// How models keep running statistics; the variance is the unbiased one.
Value Moving(BuildContext ctx, Value before, Value now, double momentum, double correction) {
  return Add(ctx, Mul(ctx, before, Scalar(ctx, static_cast<float>(momentum))),
             Mul(ctx, now, Scalar(ctx, static_cast<float>((1.0 - momentum) * correction))));
}

NamedValues BatchNormalization(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  const Value x = inputs.at("x");
  const double epsilon = c.attrs.GetFloat("epsilon");
  const std::string& format = c.attrs.GetString("data_format");
  if (!c.attrs.GetBool("training")) {
    return {{"y", BatchNormInference(ctx, x, inputs.at("scale"), inputs.at("offset"),
                                     inputs.at("moving_mean"), inputs.at("moving_variance"),
                                     epsilon, format)}};
  }
  const BatchNormResult result =
      BatchNorm(ctx, x, inputs.at("scale"), inputs.at("offset"), epsilon, format);
  const double momentum = c.attrs.GetFloat("momentum");
  const auto count =
      static_cast<double>(x.shape().num_elements() / inputs.at("scale").shape().num_elements());
  return {{"y", result.y},
          {"batch_mean", result.mean},
          {"batch_variance", result.variance},
          {"moving_mean", Moving(ctx, inputs.at("moving_mean"), result.mean, momentum, 1.0)},
          {"moving_variance", Moving(ctx, inputs.at("moving_variance"), result.variance, momentum,
                                     count / (count - 1.0))}};
}

NamedValues LayerNormalization(BuildContext ctx, const ParityCase& c, const NamedValues& inputs) {
  return {{"y", LayerNorm(ctx, inputs.at("x"), inputs.at("scale"), inputs.at("offset"),
                          static_cast<int64_t>(c.attrs.GetInts("axes").size()),
                          c.attrs.GetFloat("epsilon"))}};
}

// How a case's op is written with ours where the names or attributes differ.
const std::map<std::string_view, ParityBuild>& Special() {
  static const std::map<std::string_view, ParityBuild> special = {
      {"BatchNorm", BatchNormalization},
      {"GlobalAveragePool", GlobalAverage},
      {"LayerNorm", LayerNormalization},
  };
  return special;
}

class ParityConvTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityConvTest, AgreesWithOtherFrameworks) {
  const Result<std::vector<ParityCase>> cases =
      LoadParityCases(fmt::format("{}/tests/parity/{}.json", LS_SOURCE_DIR, GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status().ToString();
  ASSERT_FALSE(cases->empty());
  for (const ParityCase& c : *cases) {
    const auto special = Special().find(c.op);
    EXPECT_EQ(ParityDifference(c, special == Special().end() ? SameOp : special->second), "")
        << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, ParityConvTest, ::testing::Values("conv", "pooling", "norms"),
                         [](const auto& group) { return std::string(group.param); });

}  // namespace
}  // namespace lockstep::op::testing
