// How a step is cut into parts. What the parts compute: exec/partial_runs_test.cc.
#include "lockstep/pass/partial_step.h"

#include <gtest/gtest.h>

#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/variable.h"

namespace lockstep::pass {
namespace {

// sum = x + 1, product = sum * y; `bump` adds the sum to the variable v.
class PartialStepTest : public testing::Test {
 protected:
  PartialStepTest() {
    Builder b(graph_);
    x_ = op::Placeholder(b, DType::kFloat32, {2}, "x");
    y_ = op::Placeholder(b, DType::kFloat32, {2}, "y");
    const Value one = op::Const(b, Tensor::From<float>({2}, {1, 1}));
    sum_ = op::Add(b, x_, one);
    product_ = op::Mul(b, sum_, y_);
    v_ = op::Variable(b, "v", one);
    bump_ = op::AssignAdd(b, v_, sum_);
    EXPECT_TRUE(b.status().ok()) << b.status().ToString();
  }

  PartialStep Step() {
    return PartialStep::Create(graph_, {x_, y_}, {sum_, product_}, {bump_.node}).value();
  }

  static Tensor Two(float a, float b) { return Tensor::From<float>({2}, {a, b}).value(); }

  static std::string ErrorOf(const Result<PartialStep::Part>& part) {
    EXPECT_EQ(part.status().code(), StatusCode::kInvalidArgument);
    return part.status().message();
  }

  Graph graph_{op::Catalog()};
  Value x_, y_, sum_, product_, v_, bump_;
};

TEST_F(PartialStepTest, EachPartRunsWhatIsNew) {
  PartialStep step = Step();
  const auto first = step.Prepare({{x_, Two(1, 2)}}, {sum_}, {}).value();
  EXPECT_EQ(first.feeds, std::vector<Value>{x_});
  EXPECT_EQ(first.fetches, std::vector<Value>{sum_});
  EXPECT_TRUE(first.done.empty());
  EXPECT_EQ(step.Finish(first, {Two(2, 3)}).at(0).ToDoubles(), (std::vector<double>{2, 3}));
  EXPECT_FALSE(step.complete());
  EXPECT_EQ(step.Missing(), "fetches " + product_.name() + "; targets " + bump_.node->name);
  // The sum is not computed again: it is fed.
  const auto second = step.Prepare({{y_, Two(4, 5)}}, {product_}, {}).value();
  EXPECT_EQ(second.feeds.size(), 2U);
  EXPECT_NE(std::find(second.feeds.begin(), second.feeds.end(), sum_), second.feeds.end());
  EXPECT_EQ(second.runs, std::vector<Node*>{product_.node});
  (void)step.Finish(second, {Two(8, 15)});
  const auto third = step.Prepare({}, {}, {bump_.node}).value();
  EXPECT_EQ(third.feeds, std::vector<Value>{sum_});
  EXPECT_EQ(third.runs, std::vector<Node*>{bump_.node});
  (void)step.Finish(third, {});
  EXPECT_TRUE(step.complete());
}

TEST_F(PartialStepTest, WhatLaterPartsNeedIsKept) {
  PartialStep step = Step();
  const auto first = step.Prepare({{x_, Two(1, 2)}}, {}, {bump_.node}).value();
  EXPECT_EQ(first.num_asked, 0U);
  EXPECT_EQ(first.fetches, std::vector<Value>{sum_});
  EXPECT_TRUE(step.Finish(first, {Two(2, 3)}).empty());
  const auto second = step.Prepare({}, {sum_}, {}).value();
  EXPECT_TRUE(second.runs.empty());
  EXPECT_EQ(second.tensors.at(0).ToDoubles(), (std::vector<double>{2, 3}));
}

TEST_F(PartialStepTest, ErrorsNameTheValueAndChangeNothing) {
  PartialStep step = Step();
  EXPECT_NE(ErrorOf(step.Prepare({}, {sum_}, {})).find("needs the feed of x, which"),
            std::string::npos);
  EXPECT_NE(ErrorOf(step.Prepare({{x_, Two(1, 2)}}, {product_}, {})).find("needs the feed of y"),
            std::string::npos);
  EXPECT_EQ(ErrorOf(step.Prepare({{v_, Two(1, 2)}}, {}, {})),
            v_.name() + " is no feed of this partial run");
  EXPECT_EQ(ErrorOf(step.Prepare({}, {v_}, {})), v_.name() + " is no fetch of this partial run");
  EXPECT_EQ(ErrorOf(step.Prepare({}, {}, {v_.node})),
            v_.node->name + " is no target of this partial run");
  EXPECT_EQ(ErrorOf(step.Prepare({{x_, Two(1, 2)}, {x_, Two(1, 2)}}, {}, {})), "x is fed twice");
  EXPECT_EQ(ErrorOf(step.Prepare({{x_, Two(1, 2)}}, {sum_, sum_}, {})),
            sum_.name() + " is fetched twice");
  EXPECT_NE(ErrorOf(step.Prepare({{x_, Tensor::From<float>({1}, {1}).value()}}, {}, {}))
                .find("float32 [1], expected float32 [2]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(step.Prepare({{x_, Tensor()}}, {}, {})).find("no tensor"), std::string::npos);
  EXPECT_NE(ErrorOf(step.Prepare({{Value(), Two(1, 2)}}, {}, {})).find("an invalid value"),
            std::string::npos);
  const auto part = step.Prepare({{x_, Two(1, 2)}}, {sum_}, {bump_.node}).value();
  (void)step.Finish(part, {Two(2, 3)});
  EXPECT_EQ(ErrorOf(step.Prepare({{x_, Two(1, 2)}}, {}, {})), "x was fed before");
  EXPECT_EQ(ErrorOf(step.Prepare({}, {sum_}, {})), sum_.name() + " was fetched before");
  EXPECT_EQ(ErrorOf(step.Prepare({}, {}, {bump_.node})), bump_.node->name + " has run before");
}

TEST_F(PartialStepTest, AnImpossibleStepIsRefusedAtOnce) {
  const auto missing = PartialStep::Create(graph_, {x_}, {product_}, {});
  EXPECT_EQ(missing.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(missing.status().message().find("'y'"), std::string::npos);
  EXPECT_FALSE(PartialStep::Create(graph_, {x_, x_}, {sum_}, {}).ok());
  EXPECT_FALSE(PartialStep::Create(graph_, {x_}, {sum_, sum_}, {}).ok());
  EXPECT_FALSE(PartialStep::Create(graph_, {Value()}, {}, {}).ok());
  EXPECT_FALSE(PartialStep::Create(graph_, {}, {}, {nullptr}).ok());
}

TEST_F(PartialStepTest, AnyValueMayBeAFeed) {
  auto step = PartialStep::Create(graph_, {sum_, y_}, {product_}, {}).value();
  EXPECT_NE(ErrorOf(step.Prepare({{y_, Two(1, 2)}}, {product_}, {})).find(sum_.name()),
            std::string::npos);
  const auto part = step.Prepare({{sum_, Two(3, 4)}, {y_, Two(1, 2)}}, {product_}, {}).value();
  EXPECT_EQ(part.runs, std::vector<Node*>{product_.node});
}

}  // namespace
}  // namespace lockstep::pass
