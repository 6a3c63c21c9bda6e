// The CPU kernels of pooling, for float32 and bfloat16, in any layout of ImageLayout.
#pragma once

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/image_layout.h"

namespace lockstep::op::internal {

struct PoolSpec {
  Shape x;
  Shape y;
  ImageAxes axes = kNhwcAxes;
  Windows windows;
  bool count_include_pad = false;
  DType dtype = DType::kFloat32;
  int threads = 1;
};

// Checks ksize, the other window attributes and the shape of x; derives y.
Result<PoolSpec> ResolvePool(const AttrMap& attrs, const Shape& x);

// ksize and the attributes of all windows, and those of `more`.
std::vector<AttrDef> PoolAttrs(const std::vector<AttrDef>& more = {});

// Input x in `layout`; outputs y and, for each element of y, the number of the tap (kh * width +
// kw) that it came from.
Result<Kernel> MakeMaxPool(const PoolSpec& spec, const Layout& layout);

// Inputs dy, x (shape only), taps in `layout`; output dx.
Result<Kernel> MakeMaxPoolGrad(const PoolSpec& spec, const Layout& layout);

// Inputs dx (shaped like x) and taps in `layout`; output the elements of dx that the taps name.
Result<Kernel> MakeMaxPoolPick(const PoolSpec& spec, const Layout& layout);

// Input x in `layout`; output y.
Result<Kernel> MakeAvgPool(const PoolSpec& spec, const Layout& layout);

// Inputs dy in `layout`, x (shape only); output dx.
Result<Kernel> MakeAvgPoolGrad(const PoolSpec& spec, const Layout& layout);

}  // namespace lockstep::op::internal
