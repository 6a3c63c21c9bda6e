// The CPU kernels of batch normalisation: float32 or bfloat16 images, float32 parameters.
#pragma once

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/image_layout.h"

namespace lockstep::op::internal {

struct BatchNormSpec {
  // Rank 4; [N, C] is given as [1, N, 1, C].
  Shape x;
  ImageAxes axes = kNhwcAxes;
  // The tensors' real rank, for layouts.
  int rank = 4;
  float epsilon = 1e-3F;
  bool relu = false;
  DType dtype = DType::kFloat32;
  int threads = 1;
};

// Inputs x in `layout`, scale, offset; outputs y, mean, variance.
Result<Kernel> MakeBatchNorm(const BatchNormSpec& spec, const Layout& layout);

// Inputs x in `layout`, scale, offset, mean, variance; output y.
Result<Kernel> MakeBatchNormInference(const BatchNormSpec& spec, const Layout& layout);

// Which input of a gradient op is what; -1: it has none.
struct BatchNormGradInputs {
  int dy = 0;
  int x = 1;
  int scale = 2;
  int offset = -1;  // only with relu
  int mean = 3;
  int variance = 4;
};

// Outputs dx, dscale, doffset; all in `layout` where images. With `fixed_statistics` mean and
// variance are constants, and their gradients are further outputs.
Result<Kernel> MakeBatchNormGrad(const BatchNormSpec& spec, const BatchNormGradInputs& inputs,
                                 const Layout& layout, bool fixed_statistics);

}  // namespace lockstep::op::internal
