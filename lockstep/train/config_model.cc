#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "lockstep/tensor/shape.h"
#include "lockstep/train/config_reader.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 10> kModels = {
    "softmax_regression", "mlp",      "mnist_cnn", "lenet5",   "resnet20",
    "resnet32",           "resnet18", "resnet34",  "resnet50", "layers"};

constexpr std::array<std::string_view, 9> kActivations = {
    "none", "relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "softplus"};

constexpr std::array<std::string_view, 18> kLayerTypes = {
    "conv2d",     "dense",      "max_pool",   "avg_pool", "global_avg_pool", "flatten", "dropout",
    "batch_norm", "layer_norm", "activation", "relu",     "leaky_relu",      "elu",     "gelu",
    "silu",       "sigmoid",    "tanh",       "softplus"};

constexpr std::array<std::string_view, 2> kPaddings = {"same", "valid"};

constexpr IntRange kChannels = {1, 65536};
constexpr IntRange kWindow = {1, 1024};
constexpr IntRange kUnits = {1, int64_t{1} << 24};
// Far more than anybody trains; building a graph costs more than linear time.
constexpr size_t kMaxLayers = 1000;

void ReadConv(SectionReader& reader, LayerConfig& layer) {
  reader.Require("filters");
  reader.Require("kernel");
  reader.Int("filters", kChannels, layer.filters);
  reader.Pair("kernel", kWindow, layer.kernel);
  reader.Pair("stride", kWindow, layer.stride);
  reader.Choice("padding", kPaddings, layer.padding);
  reader.Pair("dilation", kWindow, layer.dilation);
  reader.Int("groups", kChannels, layer.groups);
  reader.Choice("activation", kActivations, layer.activation);
  reader.Bool("bias", layer.bias);
}

void ReadDense(SectionReader& reader, LayerConfig& layer) {
  reader.Require("units");
  reader.Int("units", kUnits, layer.units);
  reader.Choice("activation", kActivations, layer.activation);
  reader.Bool("bias", layer.bias);
}

void ReadPool(SectionReader& reader, LayerConfig& layer) {
  layer.kernel = {2, 2};
  layer.padding = "valid";
  reader.Pair("kernel", kWindow, layer.kernel);
  layer.stride = layer.kernel;
  reader.Pair("stride", kWindow, layer.stride);
  reader.Choice("padding", kPaddings, layer.padding);
}

LayerConfig ReadLayer(SectionReader& reader) {
  LayerConfig layer;
  layer.where = reader.where();
  reader.Require("type");
  reader.Choice("type", kLayerTypes, layer.type);
  if (layer.type == "conv2d") {
    ReadConv(reader, layer);
  } else if (layer.type == "dense") {
    ReadDense(reader, layer);
  } else if (layer.type == "max_pool" || layer.type == "avg_pool") {
    ReadPool(reader, layer);
  } else if (layer.type == "batch_norm") {
    reader.Real("momentum", kBelowOne, layer.momentum);
    reader.Real("epsilon", kPositive, layer.epsilon);
  } else if (layer.type == "layer_norm") {
    reader.Real("epsilon", kPositive, layer.epsilon);
  } else if (layer.type == "dropout") {
    reader.Require("rate");
    reader.Real("rate", kBelowOne, layer.rate);
  } else if (layer.type == "activation") {
    reader.Require("activation");
    reader.Choice("activation", kActivations, layer.activation);
  } else if (std::find(kActivations.begin(), kActivations.end(), layer.type) !=
             kActivations.end()) {
    layer.activation = std::exchange(layer.type, "activation");
  }
  reader.Finish();
  return layer;
}

// A sample with more elements than int32 counts is a mistake.
void CheckElements(SectionReader& reader, const std::vector<int64_t>& shape) {
  constexpr int64_t kMaxElements = std::numeric_limits<int32_t>::max();
  int64_t elements = 1;
  for (const int64_t dim : shape) {
    if (dim < 1 || __builtin_mul_overflow(elements, dim, &elements)) {
      elements = dim < 1 ? 1 : std::numeric_limits<int64_t>::max();
      break;
    }
  }
  if (elements > kMaxElements) {
    reader.FailAt("input_shape",
                  fmt::format("found {} with too many elements, a sample has at most {}",
                              Shape(std::span<const int64_t>(shape)).ToString(), kMaxElements));
  }
}

}  // namespace

std::string LayerName(int64_t index) {
  return fmt::format("model.layers[{}]", index + 1);
}

void ReadModel(SectionReader& reader, ConfigContext& context, ModelConfig& model) {
  constexpr int64_t kMaxDimension = int64_t{1} << 20;
  constexpr size_t kMaxDimensions = 7;
  model.where = reader.where();
  reader.Require("name", fmt::format(", allowed are {}", fmt::join(kModels, ", ")));
  reader.Choice("name", kModels, model.name);
  reader.Int("num_classes", {2, kUnits.high}, model.num_classes);
  reader.Ints("input_shape", {1, kMaxDimension}, model.input_shape);
  if (reader.Has("input_shape") &&
      (model.input_shape.empty() || model.input_shape.size() > kMaxDimensions)) {
    reader.FailAt("input_shape", fmt::format("found {} dimensions, allowed are 1 to {}",
                                             model.input_shape.size(), kMaxDimensions));
  }
  CheckElements(reader, model.input_shape);
  const std::string other = fmt::format("has no effect for model.name = '{}'", model.name);
  if (model.name == "mlp") {
    reader.Ints("hidden", kUnits, model.hidden);
    if (model.hidden.size() > kMaxLayers) {
      reader.FailAt("hidden", fmt::format("found {} layers, allowed are at most {}",
                                          model.hidden.size(), kMaxLayers));
    }
  } else {
    reader.Refuse("hidden", other);
  }
  if (model.name == "mlp" || model.name == "mnist_cnn") {
    reader.Real("dropout", kBelowOne, model.dropout);
  } else {
    reader.Refuse("dropout", other);
  }
  if (model.name == "layers") {
    reader.Require("layers", ", the list of [[model.layers]]");
    const std::vector<const toml::table*> tables = reader.Tables("layers");
    if (tables.size() > kMaxLayers) {
      reader.FailAt("layers", fmt::format("found {} layers, allowed are at most {}", tables.size(),
                                          kMaxLayers));
    }
    for (size_t i = 0; i < tables.size(); ++i) {
      SectionReader layer(tables[i], LayerName(static_cast<int64_t>(i)), context);
      model.layers.push_back(ReadLayer(layer));
    }
    if (reader.Has("layers") && model.layers.empty()) {
      reader.FailAt("layers", "found no layer, expected at least one");
    }
  } else {
    reader.Refuse("layers", fmt::format("{}, expected model.name = 'layers'", other));
  }
  reader.Finish();
}

}  // namespace lockstep::train
