#include "lockstep/model/layers.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/batch_norm.h"
#include "lockstep/op/bias_add.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/const.h"
#include "lockstep/op/conv2d.h"
#include "lockstep/op/dropout.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/initializers.h"
#include "lockstep/op/layer_norm.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/reshape.h"
#include "lockstep/op/size.h"
#include "lockstep/op/variable.h"

namespace lockstep::model {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 9> kActivations = {
    {{"none", Activation::kNone},
     {"relu", Activation::kRelu},
     {"leaky_relu", Activation::kLeakyRelu},
     {"elu", Activation::kElu},
     {"gelu", Activation::kGelu},
     {"silu", Activation::kSilu},
     {"sigmoid", Activation::kSigmoid},
     {"tanh", Activation::kTanh},
     {"softplus", Activation::kSoftplus}}};

// What a layer stands in while it is built: its name scope and its caller's line.
class LayerScope {
 public:
  LayerScope(Builder& builder, std::string_view name, SourceLocation where)
      : builder_(builder), name_(name), caller_(builder, where), scope_(builder, name) {}

  // The last dimension of the input, which every layer needs to know; nothing after an error.
  std::optional<int64_t> ChannelsOf(Value x) const {
    if (!builder_.status().ok()) {
      return std::nullopt;
    }
    if (!x.valid()) {
      Fail("its input is not a value of the graph");
      return std::nullopt;
    }
    const Shape& shape = x.shape();
    if (shape.rank() < 2 || shape.dim(-1) <= 0) {
      Fail(fmt::format(
          "its input has the shape {}, expected [batch, ..., channels] with known channels",
          shape.ToString()));
      return std::nullopt;
    }
    return shape.dim(-1);
  }

  void Fail(std::string_view what) const {
    BuildContext(builder_).Fail(InvalidArgument(fmt::format("layer '{}': {}", name_, what)));
  }

 private:
  Builder& builder_;
  const std::string_view name_;
  const CallerScope caller_;
  const NameScope scope_;
};

// The value in the type that the network computes in.
Value Computed(const ModelContext& ctx, Value x) {
  return !x.valid() || x.dtype() == ctx.compute ? x : op::Cast(ctx.builder, x, ctx.compute);
}

// A new variable, read in the type that the network computes in.
Value Parameter(const ModelContext& ctx, std::string_view name, const Shape& shape,
                const op::Initializer& initializer) {
  return Computed(ctx, op::InitializedVariable(ctx.builder, name, shape, initializer));
}

// variable = momentum * variable + (1 - momentum) * (statistic of the global batch)
void MoveTowards(const ModelContext& ctx, Value variable, Value statistic, double momentum) {
  Builder& b = ctx.builder;
  if (ctx.replica_weight.valid()) {
    statistic = op::Mul(b, statistic, ctx.replica_weight);
  }
  const Value global = op::CrossReplicaSum(b, statistic);
  const Value moved = op::Add(b, op::Mul(b, variable, op::Scalar(b, momentum)),
                              op::Mul(b, global, op::Scalar(b, 1.0 - momentum)));
  const Value assign = op::Assign(b, variable, moved);
  if (assign.valid()) {
    b.graph().AddToCollection(collection::kUpdateOps, assign);
  }
}

}  // namespace

Result<Activation> ParseActivation(std::string_view name) {
  std::string allowed;
  for (const auto& [known, activation] : kActivations) {
    if (known == name) {
      return activation;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known);
  }
  return InvalidArgument(fmt::format("unknown activation '{}': allowed are {}", name, allowed));
}

Value Activate(const ModelContext& ctx, Value x, Activation activation, SourceLocation where) {
  Builder& b = ctx.builder;
  const CallerScope caller(b, where);
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return op::Relu(b, x);
    case Activation::kLeakyRelu:
      return op::LeakyRelu(b, x);
    case Activation::kElu:
      return op::Elu(b, x);
    case Activation::kGelu:
      return op::Gelu(b, x);
    case Activation::kSilu:
      return op::Silu(b, x);
    case Activation::kSigmoid:
      return op::Sigmoid(b, x);
    case Activation::kTanh:
      return op::Tanh(b, x);
    case Activation::kSoftplus:
      return op::Softplus(b, x);
  }
  return {};
}

Value Dense(const ModelContext& ctx, std::string_view name, Value x, const DenseOptions& options,
            SourceLocation where) {
  Builder& b = ctx.builder;
  const LayerScope layer(b, name, where);
  if (x.valid() && x.shape().rank() > 2) {
    x = op::Flatten(b, x);
  }
  const std::optional<int64_t> inputs = layer.ChannelsOf(x);
  if (!inputs.has_value()) {
    return {};
  }
  const Value kernel = Parameter(ctx, "kernel", Shape{*inputs, options.units}, op::GlorotUniform());
  Value y = op::MatMul(b, Computed(ctx, x), kernel);
  if (options.bias) {
    y = op::BiasAdd(b, y, Parameter(ctx, "bias", Shape{options.units}, op::Zeros()));
  }
  return Activate(ctx, y, options.activation);
}

Value Conv(const ModelContext& ctx, std::string_view name, Value x, const ConvOptions& options,
           SourceLocation where) {
  Builder& b = ctx.builder;
  const LayerScope layer(b, name, where);
  const std::optional<int64_t> channels = layer.ChannelsOf(x);
  if (!channels.has_value()) {
    return {};
  }
  if (options.groups < 1 || *channels % options.groups != 0) {
    layer.Fail(fmt::format("{} groups do not divide the {} of its input", options.groups,
                           Counted(*channels, "channel")));
    return {};
  }
  if (options.kernel.size() != 2) {
    layer.Fail(
        fmt::format("a kernel of {} numbers, expected [height, width]", options.kernel.size()));
    return {};
  }
  const Shape shape{options.kernel[0], options.kernel[1], *channels / options.groups,
                    options.filters};
  const Value filter = Parameter(ctx, "filter", shape, op::HeNormal());
  op::Conv2DOptions conv;
  conv.strides = options.strides;
  conv.padding = options.padding;
  conv.explicit_paddings = options.paddings;
  conv.dilations = options.dilations;
  conv.groups = options.groups;
  Value y = op::Conv2D(b, Computed(ctx, x), filter, conv);
  if (options.bias) {
    y = op::BiasAdd(b, y, Parameter(ctx, "bias", Shape{options.filters}, op::Zeros()));
  }
  return Activate(ctx, y, options.activation);
}

Value BatchNormalization(const ModelContext& ctx, std::string_view name, Value x,
                         const BatchNormOptions& options, SourceLocation where) {
  Builder& b = ctx.builder;
  const LayerScope layer(b, name, where);
  const std::optional<int64_t> channels = layer.ChannelsOf(x);
  if (!channels.has_value()) {
    return {};
  }
  const Shape shape{*channels};
  const Value scale = op::InitializedVariable(b, "scale", shape, op::Ones());
  const Value offset = op::InitializedVariable(b, "offset", shape, op::Zeros());
  const Value mean = op::InitializedVariable(b, "moving_mean", shape, op::Zeros(), false);
  const Value variance = op::InitializedVariable(b, "moving_variance", shape, op::Ones(), false);
  if (!ctx.training) {
    return op::BatchNormInference(b, x, scale, offset, mean, variance, options.epsilon);
  }
  const op::BatchNormResult norm = op::BatchNorm(b, x, scale, offset, options.epsilon);
  // Bessel's correction n / (n - 1), with n elements per channel.
  std::vector<int64_t> axes;
  for (int axis = 0; axis + 1 < x.shape().rank(); ++axis) {
    axes.push_back(axis);
  }
  const Value n = op::Size(b, x, axes);
  const Value one = op::Scalar(b, 1.0);
  const Value correction = op::Div(b, n, op::Maximum(b, op::Sub(b, n, one), one));
  MoveTowards(ctx, mean, norm.mean, options.momentum);
  MoveTowards(ctx, variance, op::Mul(b, norm.variance, correction), options.momentum);
  return norm.y;
}

Value LayerNormalization(const ModelContext& ctx, std::string_view name, Value x, double epsilon,
                         SourceLocation where) {
  Builder& b = ctx.builder;
  const LayerScope layer(b, name, where);
  const std::optional<int64_t> channels = layer.ChannelsOf(x);
  if (!channels.has_value()) {
    return {};
  }
  const Value scale = Parameter(ctx, "scale", Shape{*channels}, op::Ones());
  const Value offset = Parameter(ctx, "offset", Shape{*channels}, op::Zeros());
  return op::LayerNorm(b, Computed(ctx, x), scale, offset, 1, epsilon);
}

Value DropoutLayer(const ModelContext& ctx, std::string_view name, Value x, double rate,
                   SourceLocation where) {
  if (!ctx.training) {
    return x;
  }
  const LayerScope layer(ctx.builder, name, where);
  return op::Dropout(ctx.builder, x, rate, 0, ctx.builder.Scoped("dropout"));
}

}  // namespace lockstep::model
