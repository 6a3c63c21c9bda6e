#include "lockstep/train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/apply_layerwise.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/global_norm.h"
#include "lockstep/op/group.h"
#include "lockstep/op/initializers.h"
#include "lockstep/op/unary.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::train {
namespace {

bool Matches(std::string_view pattern, std::string_view text) {
  // The usual walk with one point to come back to: the last star.
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(p), pattern.end(),
                     [](char c) { return c == '*'; });
}

// Makes the update of one variable.
class Updater {
 public:
  Updater(Builder& builder, const OptimizerConfig& config, Value learning_rate, Value step)
      : b_(builder), config_(config), learning_rate_(learning_rate), step_(step) {}

  Value Update(const Gradient& gradient, Value variable);

 private:
  // Not in a scope of the variable's name: that name is taken, the scope would get a suffix.
  Value Slot(std::string_view slot, double initial = 0.0) {
    const ColocationScope beside(b_, variable_);
    return op::InitializedVariable(b_, fmt::format("{}/{}", variable_.node->name, slot),
                                   variable_.shape(), op::Constant(initial), false);
  }

  Value Momentum();
  Value Adam(bool decoupled);
  Value RmsProp();
  Value Adagrad();
  Value Lars();
  Value Lamb();

  op::GradientOptions gradient_options() const {
    op::GradientOptions options;
    options.l2 = decays_ ? config_.l2 : 0.0;
    return options;
  }

  double weight_decay() const { return decays_ ? config_.weight_decay : 0.0; }

  Builder& b_;
  const OptimizerConfig& config_;
  Value learning_rate_;
  Value step_;
  Value variable_;
  Value grad_;
  bool decays_ = true;
};

Value Updater::Momentum() {
  const op::MomentumOptions options{config_.momentum, config_.nesterov, gradient_options()};
  return op::ApplyMomentum(b_, variable_, Slot("momentum"), learning_rate_, grad_, options);
}

Value Updater::Adam(bool decoupled) {
  op::AdamOptions options;
  options.beta1 = config_.beta1;
  options.beta2 = config_.beta2;
  options.epsilon = config_.epsilon;
  options.weight_decay = decoupled ? weight_decay() : 0.0;
  options.gradient = gradient_options();
  return op::ApplyAdam(b_, variable_, Slot("adam_m"), Slot("adam_v"), step_, learning_rate_, grad_,
                       options);
}

Value Updater::RmsProp() {
  const op::RmsPropOptions options{config_.rho, config_.momentum, config_.epsilon,
                                   gradient_options()};
  const Value mean_square = Slot("rmsprop_ms");
  const Value momentum = Slot("rmsprop_momentum");
  if (config_.centered) {
    return op::ApplyCenteredRmsProp(b_, variable_, mean_square, momentum, Slot("rmsprop_mg"),
                                    learning_rate_, grad_, options);
  }
  return op::ApplyRmsProp(b_, variable_, mean_square, momentum, learning_rate_, grad_, options);
}

Value Updater::Adagrad() {
  const op::AdagradOptions options{config_.epsilon, gradient_options()};
  return op::ApplyAdagrad(b_, variable_, Slot("adagrad_accumulator", config_.initial_accumulator),
                          learning_rate_, grad_, options);
}

Value Updater::Lars() {
  op::LarsOptions options;
  options.momentum = config_.momentum;
  options.weight_decay = weight_decay();
  options.trust_coefficient = config_.trust_coefficient;
  options.epsilon = config_.epsilon;
  return op::ApplyLars(b_, variable_, Slot("momentum"), learning_rate_, grad_, options);
}

Value Updater::Lamb() {
  op::LambOptions options;
  options.beta1 = config_.beta1;
  options.beta2 = config_.beta2;
  options.epsilon = config_.epsilon;
  options.weight_decay = weight_decay();
  return op::ApplyLamb(b_, variable_, Slot("lamb_m"), Slot("lamb_v"), step_, learning_rate_, grad_,
                       options);
}

Value Updater::Update(const Gradient& gradient, Value variable) {
  variable_ = variable;
  decays_ = !IsExcludedFromDecay(config_, variable.node->name);
  grad_ = pass::DenseGradient(b_, gradient, variable);
  if (config_.name == "sgd") {
    return op::ApplyGradientDescent(b_, variable_, learning_rate_, grad_, gradient_options());
  }
  if (config_.name == "momentum") {
    return Momentum();
  }
  if (config_.name == "adam" || config_.name == "adamw") {
    return Adam(config_.name == "adamw");
  }
  if (config_.name == "rmsprop") {
    return RmsProp();
  }
  if (config_.name == "adagrad") {
    return Adagrad();
  }
  if (config_.name == "lars") {
    return Lars();
  }
  if (config_.name == "lamb") {
    return Lamb();
  }
  return BuildContext(b_).Fail(
      InvalidArgument(fmt::format("there is no optimizer '{}'", config_.name)));
}

}  // namespace

Status CheckDecayExclude(const OptimizerConfig& config, std::span<const std::string> trainable) {
  constexpr size_t kExamples = 3;
  for (const std::string& pattern : config.decay_exclude) {
    if (std::none_of(trainable.begin(), trainable.end(),
                     [&](const std::string& name) { return Matches(pattern, name); })) {
      const auto examples = trainable.first(std::min(kExamples, trainable.size()));
      return InvalidArgument(fmt::format(
          "optimizer.decay_exclude: the pattern {} matches nothing: the model has {}{}{}",
          Quoted(pattern), Counted(trainable.size(), "trainable variable"),
          examples.empty() ? "" : ", such as ", fmt::join(examples, ", ")));
    }
  }
  return OkStatus();
}

bool IsExcludedFromDecay(const OptimizerConfig& config, std::string_view variable) {
  return std::any_of(config.decay_exclude.begin(), config.decay_exclude.end(),
                     [&](const std::string& pattern) { return Matches(pattern, variable); });
}

std::vector<GradientAndVariable> ClipGradients(Builder& builder,
                                               std::vector<GradientAndVariable> gradients,
                                               const ClipOptions& options) {
  if (options.value <= 0 && options.norm <= 0 && options.global_norm <= 0) {
    return gradients;
  }
  std::vector<Value> dense;
  for (GradientAndVariable& pair : gradients) {
    if (pair.gradient.is_zero()) {
      continue;
    }
    Value grad = pass::DenseGradient(builder, pair.gradient, pair.variable);
    if (options.value > 0) {
      grad = op::Clip(builder, grad, -options.value, options.value);
    } else if (options.norm > 0) {
      grad = op::Mul(builder, grad,
                     op::ClipFactor(builder, op::GlobalNorm(builder, {grad}), options.norm));
    }
    pair.gradient = {grad, {}, {}};
    dense.push_back(grad);
  }
  if (options.global_norm > 0 && !dense.empty()) {
    const Value factor =
        op::ClipFactor(builder, op::GlobalNorm(builder, dense), options.global_norm);
    for (GradientAndVariable& pair : gradients) {
      if (!pair.gradient.is_zero()) {
        pair.gradient.dense = op::Mul(builder, pair.gradient.dense, factor);
      }
    }
  }
  return gradients;
}

Node* ApplyGradients(Builder& builder, const OptimizerConfig& config,
                     std::span<const GradientAndVariable> gradients, Value learning_rate,
                     Value step) {
  std::vector<Value> updates;
  for (const GradientAndVariable& pair : gradients) {
    if (!pair.gradient.is_zero()) {
      Updater updater(builder, config, learning_rate, step);
      updates.push_back(updater.Update(pair.gradient, pair.variable));
    }
  }
  if (updates.empty()) {
    BuildContext(builder).Fail(
        InvalidArgument("there is nothing to train: the loss depends on no trainable variable"));
    return nullptr;
  }
  return op::Group(builder, updates, "train");
}

}  // namespace lockstep::train
