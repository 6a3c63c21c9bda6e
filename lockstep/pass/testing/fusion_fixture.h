// What tests of fusion passes share: inputs with spread values, the ops of a graph, and a check
// that a rewritten graph computes what the original one does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/interpreter.h"
#include "lockstep/op/testing/parity.h"
#include "lockstep/pass/gradients.h"
#include "lockstep/pass/specialize.h"

namespace lockstep::pass {

class FusionFixture : public ::testing::Test {
 protected:
  using DoubleTensor = op::testing::DoubleTensor;

  // A placeholder that ExpectSameNumbers feeds with values from -2 to 2.
  Value Input(const Shape& shape, std::string_view name = "x") {
    const Value x = op::Placeholder(b_, DType::kFloat32, shape, name);
    const auto index = static_cast<int>(inputs_.size());
    inputs_.push_back({x, op::testing::MakeInput({.shape = shape}, index).value()});
    return x;
  }

  // Of the sum of y by x; the test fails if there is none.
  Value Grad(Value y, Value x) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    const Value ys[] = {y};
    const Value xs[] = {x};
    Result<std::vector<Gradient>> gradients = Gradients(b_, ys, xs);
    EXPECT_TRUE(gradients.ok()) << gradients.status().ToString();
    return gradients.ok() ? (*gradients)[0].dense : Value{};
  }

  SpecializedGraph Specialized(const std::vector<Value>& fetches,
                               const std::vector<Node*>& targets = {}) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    std::vector<Feed> feeds;
    for (const auto& [value, tensor] : inputs_) {
      feeds.push_back({value, tensor.dtype(), tensor.shape()});
    }
    Result<SpecializedGraph> graph = Specialize(graph_, feeds, fetches, targets);
    EXPECT_TRUE(graph.ok()) << graph.status().ToString();
    return std::move(graph).value();
  }

  // Sorted names of the ops that compute something.
  static std::vector<std::string> Ops(const SpecializedGraph& graph) {
    std::vector<std::string> ops;
    for (const auto& node : graph.graph->nodes()) {
      if (node->op->name != "Placeholder" && node->op->name != "Const" &&
          node->op->name != "Variable") {
        ops.emplace_back(node->op->name);
      }
    }
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  // Runs the rewritten graph with kernels, the original one with float64 references.
  void ExpectSameNumbers(const SpecializedGraph& rewritten, const std::vector<Value>& fetches,
                         double tolerance = 1e-5) {
    op::testing::Interpreter kernels(op::testing::Interpreter::Mode::kKernels);
    op::testing::Interpreter references(op::testing::Interpreter::Mode::kReferences);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const DoubleTensor values = op::testing::ToDoubleTensor(inputs_[i].second);
      references.Feed(inputs_[i].first, values);
      if (rewritten.feeds[i].valid()) {
        kernels.Feed(rewritten.feeds[i], values);
      }
    }
    const auto got = kernels.Evaluate(*rewritten.graph, rewritten.fetches);
    const auto expected = references.Evaluate(graph_, fetches);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    for (size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_EQ(
          op::testing::ArrayDifference(fetches[i].name(), (*got)[i], (*expected)[i], tolerance),
          "");
    }
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
  std::vector<std::pair<Value, Tensor>> inputs_;
};

}  // namespace lockstep::pass
