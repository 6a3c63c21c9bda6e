#include "lockstep/op/variable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/run_op.h"

namespace lockstep::op {
namespace {

using ::testing::HasSubstr;

class VariableTest : public ::testing::Test {
 protected:
  size_t Count(std::string_view name) const { return graph_.Collection(name).size(); }

  Graph graph_{Catalog()};
  Builder b_{graph_};
};

TEST_F(VariableTest, NamesAndCollections) {
  const NameScope scope(b_, "dense");
  const Value w = Variable(b_, "kernel", Scalar(b_, 1.0));
  const Value second = Variable(b_, "kernel", Scalar(b_, 2.0), false);
  ASSERT_TRUE(b_.status().ok()) << b_.status().ToString();
  EXPECT_EQ(w.name(), "dense/kernel");
  EXPECT_EQ(second.name(), "dense/kernel_1");
  EXPECT_NE(graph_.FindNode("dense/kernel/Assign"), nullptr);
  EXPECT_NE(graph_.FindNode("dense/kernel_1/Assign"), nullptr);
  EXPECT_TRUE(w.type().is_variable);
  EXPECT_EQ(Count(collection::kVariables), 2U);
  EXPECT_EQ(Count(collection::kTrainableVariables), 1U);
  EXPECT_EQ(Count(collection::kInitializers), 2U);
}

TEST_F(VariableTest, AnOpenShapeIsRefused) {
  Variable(b_, "v", Placeholder(b_, DType::kFloat32, {-1, 3}));
  EXPECT_THAT(b_.status().message(), HasSubstr("[?, 3]"));
  EXPECT_EQ(Count(collection::kVariables), 0U);
}

TEST_F(VariableTest, OnlyVariablesOfTheSameTypeAreAssigned) {
  const Value constant = Scalar(b_, 1.0);
  Assign(b_, constant, constant);
  EXPECT_THAT(b_.status().message(), HasSubstr("must be a variable"));

  Builder other(graph_);
  const Value v = Variable(other, "v", Scalar(other, 1.0));
  Assign(other, v, Scalar(other, 1.0, DType::kInt32));
  EXPECT_THAT(other.status().message(), HasSubstr("differ in type"));
}

// A later write must not change what was read.
TEST_F(VariableTest, IdentityOfAVariableIsACopy) {
  const Value v = Variable(b_, "v", Scalar(b_, 1.0));
  const Value copy = Identity(b_, v);
  const Value view = Identity(b_, copy);
  const TensorDesc scalar;
  const auto of_variable = copy.node->op->cpu({*copy.node, {&scalar, 1}, {&scalar, 1}});
  const auto of_value = view.node->op->cpu({*view.node, {&scalar, 1}, {&scalar, 1}});
  ASSERT_TRUE(of_variable.ok() && of_value.ok());
  EXPECT_TRUE(of_variable->alias.empty());
  EXPECT_EQ(of_value->alias, std::vector<int>{0});
}

}  // namespace
}  // namespace lockstep::op
