#include "lockstep/model/resnet.h"

#include <fmt/format.h>

#include <array>

#include "lockstep/op/activation.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/pool.h"

namespace lockstep::model {
namespace {

// The running statistics of the common implementations.
constexpr BatchNormOptions kNorm{.momentum = 0.9, .epsilon = 1e-5};

// Convolution with symmetric padding of half the kernel and no bias, then batch norm.
Value ConvNorm(const ModelContext& ctx, std::string_view name, Value x, int64_t filters,
               int64_t kernel, int64_t stride, Activation activation) {
  const NameScope scope(ctx.builder, name);
  const int64_t pad = kernel / 2;
  ConvOptions conv;
  conv.filters = filters;
  conv.kernel = {kernel, kernel};
  conv.strides = {stride, stride};
  conv.padding = "EXPLICIT";
  conv.paddings = {pad, pad, pad, pad};
  conv.bias = false;
  const Value y = BatchNormalization(ctx, "norm", Conv(ctx, "conv", x, conv), kNorm);
  return Activate(ctx, y, activation);
}

// The input itself, or its projection where shapes differ.
Value Shortcut(const ModelContext& ctx, Value x, int64_t filters, int64_t stride) {
  if (!x.valid() || (stride == 1 && x.shape().dim(-1) == filters)) {
    return x;
  }
  return ConvNorm(ctx, "shortcut", x, filters, 1, stride, Activation::kNone);
}

Value BasicBlock(const ModelContext& ctx, std::string_view name, Value x, int64_t filters,
                 int64_t stride) {
  const NameScope scope(ctx.builder, name);
  Value y = ConvNorm(ctx, "a", x, filters, 3, stride, Activation::kRelu);
  y = ConvNorm(ctx, "b", y, filters, 3, 1, Activation::kNone);
  return op::Relu(ctx.builder, op::Add(ctx.builder, y, Shortcut(ctx, x, filters, stride)));
}

Value BottleneckBlock(const ModelContext& ctx, std::string_view name, Value x, int64_t width,
                      int64_t stride) {
  const NameScope scope(ctx.builder, name);
  Value y = ConvNorm(ctx, "a", x, width, 1, 1, Activation::kRelu);
  y = ConvNorm(ctx, "b", y, width, 3, stride, Activation::kRelu);
  y = ConvNorm(ctx, "c", y, 4 * width, 1, 1, Activation::kNone);
  return op::Relu(ctx.builder, op::Add(ctx.builder, y, Shortcut(ctx, x, 4 * width, stride)));
}

}  // namespace

Value ResNet(const ModelContext& ctx, Value images, int layers, int64_t num_classes) {
  const std::array<int, 4> blocks =
      layers == 18 ? std::array<int, 4>{2, 2, 2, 2} : std::array<int, 4>{3, 4, 6, 3};
  const bool bottleneck = layers == 50;
  Value x = ConvNorm(ctx, "stem", images, 64, 7, 2, Activation::kRelu);
  op::PoolOptions pool;
  pool.ksize = {3, 3};
  pool.strides = {2, 2};
  pool.padding = "EXPLICIT";
  pool.explicit_paddings = {1, 1, 1, 1};
  x = op::MaxPool(ctx.builder, x, pool);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = fmt::format("stage{}_block{}", stage + 1, block + 1);
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = bottleneck ? BottleneckBlock(ctx, name, x, width, stride)
                     : BasicBlock(ctx, name, x, width, stride);
    }
  }
  x = op::GlobalAveragePool(ctx.builder, x);
  return Dense(ctx, "logits", x, {.units = num_classes});
}

Value CifarResNet(const ModelContext& ctx, Value images, int blocks, int64_t num_classes) {
  Value x = ConvNorm(ctx, "stem", images, 16, 3, 1, Activation::kRelu);
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = fmt::format("stage{}_block{}", stage + 1, block + 1);
      x = BasicBlock(ctx, name, x, int64_t{16} << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  x = op::GlobalAveragePool(ctx.builder, x);
  return Dense(ctx, "logits", x, {.units = num_classes});
}

}  // namespace lockstep::model
