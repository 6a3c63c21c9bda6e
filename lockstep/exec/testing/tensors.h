// What tests of the layer make of tensors.
#pragma once

#include <vector>

#include "lockstep/tensor/layout.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::exec {

// The values of a plain float32 tensor.
inline std::vector<float> Floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

// [n, c, h, w] with channels in blocks of 8, as nChw8c.
inline Layout BlockedChannels(const Shape& shape) {
  const int64_t channels = (shape.dim(1) + 7) / 8 * 8;
  const int64_t pixels = shape.dim(2) * shape.dim(3);
  const int64_t padded[] = {shape.dim(0), channels, shape.dim(2), shape.dim(3)};
  const int64_t strides[] = {channels * pixels, pixels * 8, shape.dim(3) * 8, 8};
  const Layout::Block blocks[] = {{1, 8}};
  return Layout::Blocked(shape, padded, strides, blocks);
}

}  // namespace lockstep::exec
