#include "lockstep/train/model_from_config.h"

#include <fmt/format.h>

#include "lockstep/op/pool.h"
#include "lockstep/op/reshape.h"

namespace lockstep::train {
namespace {

using model::Activation;
using model::ModelContext;

std::string_view Padding(const LayerConfig& layer) {
  return layer.padding == "same" ? "SAME" : "VALID";
}

op::PoolOptions PoolOf(const LayerConfig& layer) {
  op::PoolOptions pool;
  pool.ksize = {layer.kernel[0], layer.kernel[1]};
  pool.strides = {layer.stride[0], layer.stride[1]};
  pool.padding = Padding(layer);
  return pool;
}

model::ConvOptions ConvOf(const LayerConfig& layer, Activation activation) {
  model::ConvOptions conv;
  conv.filters = layer.filters;
  conv.kernel = {layer.kernel[0], layer.kernel[1]};
  conv.strides = {layer.stride[0], layer.stride[1]};
  conv.padding = Padding(layer);
  conv.dilations = {layer.dilation[0], layer.dilation[1]};
  conv.groups = layer.groups;
  conv.bias = layer.bias;
  conv.activation = activation;
  return conv;
}

Value AddLayer(const ModelContext& ctx, const std::string& name, const LayerConfig& layer,
               Value x) {
  Builder& b = ctx.builder;
  const Result<Activation> activation = model::ParseActivation(layer.activation);
  if (!activation.ok()) {
    return BuildContext(b).Fail(activation.status());
  }
  if (layer.type == "conv2d") {
    return Conv(ctx, name, x, ConvOf(layer, *activation));
  }
  if (layer.type == "dense") {
    return Dense(ctx, name, x,
                 {.units = layer.units, .activation = *activation, .bias = layer.bias});
  }
  if (layer.type == "max_pool") {
    return op::MaxPool(b, x, PoolOf(layer));
  }
  if (layer.type == "avg_pool") {
    return op::AvgPool(b, x, PoolOf(layer));
  }
  if (layer.type == "global_avg_pool") {
    return op::GlobalAveragePool(b, x);
  }
  if (layer.type == "flatten") {
    return op::Flatten(b, x);
  }
  if (layer.type == "batch_norm") {
    return BatchNormalization(ctx, name, x, {.momentum = layer.momentum, .epsilon = layer.epsilon});
  }
  if (layer.type == "layer_norm") {
    return LayerNormalization(ctx, name, x, layer.epsilon);
  }
  if (layer.type == "dropout") {
    return DropoutLayer(ctx, name, x, layer.rate);
  }
  if (layer.type == "activation") {
    return Activate(ctx, x, *activation);
  }
  return BuildContext(b).Fail(InvalidArgument(fmt::format("no layer '{}'", layer.type)));
}

model::ModelFn FromLayers(const std::vector<LayerConfig>& layers) {
  return [layers](const ModelContext& ctx, Value x) {
    for (size_t i = 0; i < layers.size() && x.valid(); ++i) {
      x = AddLayer(ctx, fmt::format("layer{}_{}", i + 1, layers[i].type), layers[i], x);
      if (!x.valid()) {
        // The builder keeps the first error; this says which layer of the configuration it was.
        ctx.builder.AddContext(
            fmt::format("{}: layer {} ({})", layers[i].where, i + 1, layers[i].type));
      }
    }
    return x;
  };
}

}  // namespace

Result<model::ModelFn> ModelFromConfig(const ModelConfig& config, int64_t num_classes) {
  if (config.num_classes != 0 && config.num_classes < num_classes) {
    return InvalidArgument(fmt::format("model.num_classes is {}, the data has {} classes",
                                       config.num_classes, num_classes));
  }
  if (config.name == "layers") {
    return FromLayers(config.layers);
  }
  model::ModelOptions options;
  options.num_classes = std::max(config.num_classes, num_classes);
  options.hidden = config.hidden;
  options.dropout = config.dropout;
  return model::MakeModel(config.name, options);
}

}  // namespace lockstep::train
