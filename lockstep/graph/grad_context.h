// GradContext: what a gradient function gets and gives. It emits ordinary nodes that compute the
// derivative of a scalar with respect to each input of a node from the derivative with respect to
// its outputs.
//
//   Status SquareGrad(GradContext& ctx) {
//     ctx.SetGrad(0, Mul(ctx, ctx.dy(0), Scale(ctx, ctx.input(0), 2.0)));
//     return OkStatus();
//   }
#pragma once

#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep {

// A gradient: dense, or rows `values` [k, ...] that belong to the rows `indices` [k] of the input
// (repeated indices add up; all other rows are zero). Neither: zero.
struct Gradient {
  Value dense;
  Value indices;
  Value values;

  bool is_zero() const { return !dense.valid() && !values.valid(); }

  bool is_sparse() const { return values.valid(); }
};

class GradContext {
 public:
  // `output_grads` has an invalid value where no gradient arrives.
  GradContext(Builder& builder, Node& node, std::vector<Value> output_grads)
      : builder_(builder),
        node_(node),
        output_grads_(std::move(output_grads)),
        input_grads_(node.inputs.size()) {}

  // Errors in the nodes of a gradient name the line of the node that it belongs to.
  operator BuildContext() const {  // NOLINT(google-explicit-constructor)
    return {builder_, SourceLocation{node_.file.c_str(), node_.line}};
  }

  const Node& node() const { return node_; }

  const AttrMap& attrs() const { return node_.attrs; }

  Value input(int i) const { return node_.inputs[static_cast<size_t>(i)]; }

  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }

  Value output(int i = 0) const { return {&node_, i}; }

  // Invalid if no gradient arrives at output i; at least one is valid.
  Value dy(int i = 0) const { return output_grads_[static_cast<size_t>(i)]; }

  // An input that is not set has the gradient zero.
  void SetGrad(int i, Value dx) { input_grads_[static_cast<size_t>(i)].dense = dx; }

  void SetSparseGrad(int i, Value indices, Value values) {
    input_grads_[static_cast<size_t>(i)] = {{}, indices, values};
  }

  std::vector<Gradient> TakeInputGrads() { return std::move(input_grads_); }

 private:
  Builder& builder_;
  Node& node_;
  std::vector<Value> output_grads_;
  std::vector<Gradient> input_grads_;
};

}  // namespace lockstep
