// The CPU kernels of convolutions. They choose the layouts: oneDNN's blocked ones where the channel
// counts allow it.
#pragma once

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/conv_spec.h"

namespace lockstep::op::internal {

struct ConvFusion {
  bool bias = false;  // input 2, [out]
  bool sum = false;   // input 3, like y, added before the activation
  bool relu = false;
};

// Inputs x, filter[, bias[, sum]]; output y.
Result<Kernel> MakeConvForward(const ConvSpec& spec, const ConvFusion& fusion);

// Inputs dy, filter, x (shape only); output dx.
Result<Kernel> MakeConvBackwardInput(const ConvSpec& spec);

// Inputs x (at present in `x_layout`), dy, filter (shape only); output dfilter.
Result<Kernel> MakeConvBackwardFilter(const ConvSpec& spec, const Layout& x_layout);

}  // namespace lockstep::op::internal
