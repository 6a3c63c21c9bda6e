#include "lockstep/pass/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace lockstep::pass {
namespace {

BuildContext ContextOf(Builder& builder, const Node& node) {
  return {builder, SourceLocation{node.file.c_str(), node.line}};
}

bool MayFlow(const Value& value) {
  return IsFloating(value.dtype());
}

// State of one call.
class Differentiator {
 public:
  Differentiator(Builder& builder, std::span<const Value> ys, std::span<const Value> xs)
      : builder_(builder), ys_(ys), xs_(xs) {}

  Result<std::vector<Gradient>> Run(std::span<const Value> grad_ys);

 private:
  Status Seed(std::span<const Value> grad_ys);
  Result<Value> Ones(Value y);
  // Nodes on a path from an x to a y, in topological order.
  Result<std::vector<Node*>> NodesBetween() const;
  Status Propagate(Node& node);
  // The sum of what arrived at a value.
  Gradient Total(Value value);

  bool Wanted(const Value& value) const {
    return MayFlow(value) && depends_on_x_[static_cast<size_t>(value.node->id)];
  }

  Builder& builder_;
  std::span<const Value> ys_;
  std::span<const Value> xs_;
  std::vector<bool> depends_on_x_;
  std::unordered_map<Value, std::vector<Gradient>, ValueHash> parts_;
};

Result<Value> Differentiator::Ones(Value y) {
  const BuildContext ctx = ContextOf(builder_, *y.node);
  LS_ASSIGN_OR_RETURN(Tensor one, Tensor::Allocate(y.dtype(), Shape{}));
  const float value = 1.0F;
  ConvertElements(DType::kFloat32, &value, y.dtype(), one.data(), 1);
  const Value scalar = ctx.Add("Const", {}, {{"value", one}}, "gradients/one");
  return y.shape().rank() == 0 ? scalar
                               : ctx.Add("BroadcastLike", {scalar, y}, {}, "gradients/ones");
}

Status Differentiator::Seed(std::span<const Value> grad_ys) {
  for (size_t i = 0; i < ys_.size(); ++i) {
    const Value y = ys_[i];
    if (!MayFlow(y)) {
      return InvalidArgument(fmt::format("a gradient needs a floating-point value, '{}' is {}",
                                         y.name(), DTypeName(y.dtype())));
    }
    Value seed = i < grad_ys.size() ? grad_ys[i] : Value{};
    if (!seed.valid()) {
      LS_ASSIGN_OR_RETURN(seed, Ones(y));
    } else if (seed.dtype() != y.dtype() || !seed.shape().CompatibleWith(y.shape())) {
      return InvalidArgument(fmt::format("the gradient '{}' of '{}' is {}, expected {}",
                                         seed.name(), y.name(), seed.type().ToString(),
                                         y.type().ToString()));
    }
    parts_[y].push_back({seed, {}, {}});
  }
  return OkStatus();
}

Result<std::vector<Node*>> Differentiator::NodesBetween() const {
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, builder_.graph().TopologicalOrder());
  const size_t count = builder_.graph().nodes().size();
  std::vector<bool> from_x(count, false);
  for (const Value& x : xs_) {
    from_x[static_cast<size_t>(x.node->id)] = true;
  }
  for (const Node* node : order) {
    const bool reached =
        std::any_of(node->inputs.begin(), node->inputs.end(), [&](const Value& input) {
          return MayFlow(input) && from_x[static_cast<size_t>(input.node->id)];
        });
    if (reached) {
      from_x[static_cast<size_t>(node->id)] = true;
    }
  }
  std::vector<bool> leads_to_y(count, false);
  for (const Value& y : ys_) {
    leads_to_y[static_cast<size_t>(y.node->id)] = true;
  }
  std::vector<Node*> between;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    Node* node = *it;
    if (!leads_to_y[static_cast<size_t>(node->id)]) {
      continue;
    }
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (!node->op->UsesShapeOnly(static_cast<int>(i))) {
        leads_to_y[static_cast<size_t>(node->inputs[i].node->id)] = true;
      }
    }
    if (from_x[static_cast<size_t>(node->id)]) {
      between.push_back(node);
    }
  }
  std::reverse(between.begin(), between.end());
  return between;
}

Gradient Differentiator::Total(Value value) {
  std::vector<Gradient>& parts = parts_[value];
  if (parts.size() <= 1) {
    return parts.empty() ? Gradient{} : parts[0];
  }
  const BuildContext ctx = ContextOf(builder_, *value.node);
  Gradient total;
  if (std::all_of(parts.begin(), parts.end(), [](const Gradient& g) { return g.is_sparse(); })) {
    std::vector<Value> indices;
    std::vector<Value> values;
    for (const Gradient& part : parts) {
      indices.push_back(part.indices);
      values.push_back(part.values);
    }
    total.indices = ctx.Add("Concat", indices, {{"axis", int64_t{0}}});
    total.values = ctx.Add("Concat", values, {{"axis", int64_t{0}}});
  } else {
    std::vector<Value> dense;
    for (const Gradient& part : parts) {
      dense.push_back(DenseGradient(ctx, part, value));
    }
    total.dense = ctx.Add("AddN", dense);
  }
  parts = {total};
  return total;
}

Status Differentiator::Propagate(Node& node) {
  const BuildContext ctx = ContextOf(builder_, node);
  std::vector<Value> output_grads;
  bool any = false;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
    output_grads.push_back(DenseGradient(ctx, Total(node.output(i)), node.output(i)));
    any = any || output_grads.back().valid();
  }
  const bool wanted = std::any_of(node.inputs.begin(), node.inputs.end(),
                                  [&](const Value& input) { return Wanted(input); });
  if (!any || !wanted) {
    return OkStatus();
  }
  if (node.op->grad == nullptr) {
    return InvalidArgument(
        fmt::format("the gradient has to pass through {}, which has none", node.Describe()));
  }
  GradContext grad_ctx(builder_, node, std::move(output_grads));
  LS_TRY(node.op->grad(grad_ctx).With("gradient of " + node.Describe()));
  LS_TRY(builder_.status());
  const std::vector<Gradient> input_grads = grad_ctx.TakeInputGrads();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value input = node.inputs[i];
    const Gradient& grad = input_grads[i];
    if (grad.is_zero() || !Wanted(input)) {
      continue;
    }
    if (grad.dense.valid() && (grad.dense.dtype() != input.dtype() ||
                               !grad.dense.shape().CompatibleWith(input.shape()))) {
      return Internal(fmt::format("the gradient of {} for input {} is {}, the input is {}",
                                  node.Describe(), i, grad.dense.type().ToString(),
                                  input.type().ToString()));
    }
    parts_[input].push_back(grad);
  }
  return OkStatus();
}

Result<std::vector<Gradient>> Differentiator::Run(std::span<const Value> grad_ys) {
  LS_TRY(builder_.status());
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> nodes, NodesBetween());
  depends_on_x_.assign(builder_.graph().nodes().size(), false);
  for (const Node* node : nodes) {
    depends_on_x_[static_cast<size_t>(node->id)] = true;
  }
  LS_TRY(Seed(grad_ys));
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    LS_TRY(Propagate(**it));
  }
  std::vector<Gradient> result;
  for (const Value& x : xs_) {
    result.push_back(Total(x));
  }
  LS_TRY(builder_.status());
  return result;
}

}  // namespace

Result<std::vector<Gradient>> Gradients(Builder& builder, std::span<const Value> ys,
                                        std::span<const Value> xs, std::span<const Value> grad_ys) {
  for (const auto& values : {ys, xs}) {
    for (const Value& value : values) {
      if (!value.valid()) {
        return builder.status().ok() ? InvalidArgument("a gradient was asked of an invalid value")
                                     : builder.status();
      }
    }
  }
  return Differentiator(builder, ys, xs).Run(grad_ys);
}

Value DenseGradient(BuildContext ctx, const Gradient& gradient, Value like) {
  if (!gradient.is_sparse()) {
    return gradient.dense;
  }
  return ctx.Add("ScatterAddRows", {gradient.indices, gradient.values, like});
}

}  // namespace lockstep::pass
