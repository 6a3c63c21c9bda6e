#include "lockstep/model/zoo.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"
#include "lockstep/model/resnet.h"
#include "lockstep/op/pool.h"

namespace lockstep::model {
namespace {

Value MaxPool2(const ModelContext& ctx, Value x) {
  return op::MaxPool(ctx.builder, x, {});
}

ModelFn SoftmaxRegression(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value features) {
    return Dense(ctx, "softmax", features, {.units = options.num_classes});
  };
}

ModelFn Mlp(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value features) {
    Value x = features;
    for (size_t i = 0; i < options.hidden.size(); ++i) {
      x = Dense(ctx, fmt::format("dense{}", i + 1), x,
                {.units = options.hidden[i], .activation = Activation::kRelu});
    }
    x = DropoutLayer(ctx, "dropout", x, options.dropout);
    return Dense(ctx, "logits", x, {.units = options.num_classes});
  };
}

ModelFn MnistCnn(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value images) {
    Value x = Conv(ctx, "conv1", images, {.filters = 32, .activation = Activation::kRelu});
    x = MaxPool2(ctx, x);
    x = Conv(ctx, "conv2", x, {.filters = 64, .activation = Activation::kRelu});
    x = MaxPool2(ctx, x);
    x = Dense(ctx, "dense", x, {.units = 128, .activation = Activation::kRelu});
    x = DropoutLayer(ctx, "dropout", x, options.dropout);
    return Dense(ctx, "logits", x, {.units = options.num_classes});
  };
}

// LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998,
// with maximum pooling and rectifiers in place of the original's subsampling and sigmoids.
ModelFn LeNet5(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value images) {
    const auto conv = [](int64_t filters, std::string_view padding) {
      return ConvOptions{.filters = filters,
                         .kernel = {5, 5},
                         .padding = padding,
                         .activation = Activation::kRelu};
    };
    Value x = MaxPool2(ctx, Conv(ctx, "conv1", images, conv(6, "SAME")));
    x = MaxPool2(ctx, Conv(ctx, "conv2", x, conv(16, "VALID")));
    x = Dense(ctx, "dense1", x, {.units = 120, .activation = Activation::kRelu});
    x = Dense(ctx, "dense2", x, {.units = 84, .activation = Activation::kRelu});
    return Dense(ctx, "logits", x, {.units = options.num_classes});
  };
}

template <int kLayers>
ModelFn ResNetOf(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value images) {
    return ResNet(ctx, images, kLayers, options.num_classes);
  };
}

template <int kBlocks>
ModelFn CifarResNetOf(const ModelOptions& options) {
  return [options](const ModelContext& ctx, Value images) {
    return CifarResNet(ctx, images, kBlocks, options.num_classes);
  };
}

}  // namespace

std::span<const ModelInfo> Models() {
  static const std::vector<ModelInfo> models = {
      {"lenet5", "LeNet-5: convolutions 6 and 16 of 5x5, dense 120 and 84", {28, 28, 1}, LeNet5},
      {"mlp", "dense layers with rectifiers (model.hidden)", {784}, Mlp},
      {"mnist_cnn", "convolutions 32 and 64 of 3x3, dense 128", {28, 28, 1}, MnistCnn},
      {"resnet18", "residual network of 18 layers, basic blocks", {224, 224, 3}, ResNetOf<18>},
      {"resnet20", "residual network of 20 layers for CIFAR", {32, 32, 3}, CifarResNetOf<3>},
      {"resnet32", "residual network of 32 layers for CIFAR", {32, 32, 3}, CifarResNetOf<5>},
      {"resnet34", "residual network of 34 layers, basic blocks", {224, 224, 3}, ResNetOf<34>},
      {"resnet50", "residual network of 50 layers, bottlenecks", {224, 224, 3}, ResNetOf<50>},
      {"softmax_regression", "one dense layer, no hidden one", {784}, SoftmaxRegression},
  };
  return models;
}

Result<ModelFn> MakeModel(std::string_view name, const ModelOptions& options) {
  std::vector<std::string_view> names;
  for (const ModelInfo& info : Models()) {
    if (info.name == name) {
      return info.make(options);
    }
    names.push_back(info.name);
  }
  return NotFound(fmt::format("there is no model {}{}: allowed are {}", Quoted(name),
                              DidYouMean(name, names), fmt::join(names, ", ")));
}

}  // namespace lockstep::model
