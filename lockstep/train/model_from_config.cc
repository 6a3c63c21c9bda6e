#include "lockstep/train/model_from_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "lockstep/op/pool.h"
#include "lockstep/op/reshape.h"

namespace lockstep::train {
namespace {

using model::Activation;
using model::ModelContext;

struct Place {
  std::string file;
  int line = 0;
};

// "mnist.toml:12:1"; nothing for anything else, such as a flag.
std::optional<Place> PlaceOf(const std::string& where) {
  const size_t column = where.rfind(':');
  const size_t line = column == 0 ? std::string::npos : where.rfind(':', column - 1);
  if (column == std::string::npos || line == std::string::npos) {
    return std::nullopt;
  }
  int number = 0;
  const char* end = where.data() + column;
  const auto [stop, error] = std::from_chars(where.data() + line + 1, end, number);
  return error == std::errc() && stop == end ? std::optional<Place>({where.substr(0, line), number})
                                             : std::nullopt;
}

// Nodes and errors have the place in the configuration where others have a line of C++.
class ConfigScope {
 public:
  ConfigScope(Builder& builder, std::optional<Place> place) : place_(std::move(place)) {
    if (place_.has_value()) {
      scope_.emplace(builder, SourceLocation{place_->file.c_str(), place_->line});
    }
  }

 private:
  const std::optional<Place> place_;
  std::optional<CallerScope> scope_;
};

// With padding "same" a window of more than twice the input, less one, has edges that touch nothing
// at any position: always a mistake, and minutes of multiplying by zero.
Status CheckWindow(const LayerConfig& layer, const Value& x) {
  constexpr std::string_view kSides[] = {"height", "width"};
  if (layer.padding != "same" || !x.valid() || x.shape().rank() != 4) {
    return OkStatus();
  }
  for (size_t side = 0; side < 2; ++side) {
    const int64_t input = x.shape()[static_cast<int>(side) + 1];
    const int64_t reach = (layer.kernel[side] - 1) * layer.dilation[side] + 1;
    if (input > 0 && reach > 2 * input - 1) {
      return InvalidArgument(fmt::format(
          "a kernel of {} {}{} on an input of {} {}: at most {} can touch it with padding 'same'",
          kSides[side], layer.kernel[side],
          layer.dilation[side] > 1 ? fmt::format(" and dilation {}", layer.dilation[side]) : "",
          kSides[side], input, 2 * input - 1));
    }
  }
  return OkStatus();
}

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
  if (layer.type == "conv2d" || layer.type == "max_pool" || layer.type == "avg_pool") {
    if (Status status = CheckWindow(layer, x); !status.ok()) {
      return BuildContext(b).Fail(std::move(status));
    }
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

model::ModelFn FromLayers(const ModelConfig& config) {
  return
      [layers = config.layers, section = PlaceOf(config.where)](const ModelContext& ctx, Value x) {
        for (size_t i = 0; i < layers.size() && x.valid(); ++i) {
          const LayerConfig& layer = layers[i];
          const std::optional<Place> place = PlaceOf(layer.where);
          const ConfigScope scope(ctx.builder, place.has_value() ? place : section);
          x = AddLayer(ctx, fmt::format("layer{}_{}", i + 1, layer.type), layer, x);
          if (!x.valid()) {
            // The builder keeps the first error; this says which layer of the configuration it was.
            ctx.builder.AddContext(fmt::format("{} ({}){}", LayerName(static_cast<int64_t>(i)),
                                               layer.type,
                                               place.has_value() ? "" : " of " + layer.where));
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
    return FromLayers(config);
  }
  model::ModelOptions options;
  options.num_classes = std::max(config.num_classes, num_classes);
  options.hidden = config.hidden;
  options.dropout = config.dropout;
  LS_ASSIGN_OR_RETURN(model::ModelFn model, model::MakeModel(config.name, options));
  return model::ModelFn([model = std::move(model), section = PlaceOf(config.where)](
                            const ModelContext& ctx, Value features) {
    const ConfigScope scope(ctx.builder, section);
    return model(ctx, features);
  });
}

}  // namespace lockstep::train
