// Residual networks: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR
// 2016. For large images the variant of the common implementations (stride in the 3x3 convolution
// of a bottleneck, symmetric padding).
#pragma once

#include <cstdint>

#include "lockstep/model/layers.h"

namespace lockstep::model {

// 18, 34 or 50 layers, for [N, 224, 224, 3].
Value ResNet(const ModelContext& ctx, Value images, int layers, int64_t num_classes);

// 6 * blocks + 2 layers with 16, 32 and 64 channels, for [N, 32, 32, 3]: 3 blocks are ResNet-20, 5
// are ResNet-32.
Value CifarResNet(const ModelContext& ctx, Value images, int blocks, int64_t num_classes);

}  // namespace lockstep::model
