// Convolutions with 3x3 windows and stride 1 by Winograd's minimal filtering F(2x2, 3x3) (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2015): 2.25 times fewer products than
// the sum that defines them. With 2x2 tiles the rounding errors stay close to those of the direct
// sum. For processors with AVX2 but not AVX-512. float32, layouts nChw8c and OIhw8i8o. Results do
// not depend on the number of threads.
#pragma once

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/conv_spec.h"

namespace lockstep::op::internal {

// True if these kernels compute the convolution, and it is large enough that they pay.
bool WinogradSuits(const ConvSpec& spec);

// Inputs x, filter[, bias]; output y.
Kernel MakeWinogradForward(const ConvSpec& spec, bool bias, bool relu);

// Inputs dy, filter, x (shape only); output dx.
Kernel MakeWinogradBackwardInput(const ConvSpec& spec);

// Inputs x, dy, filter (shape only); output dfilter.
Kernel MakeWinogradBackwardFilter(const ConvSpec& spec);

// OIhw8i8o.
Layout WinogradFilterLayout(const ConvSpec& spec);

}  // namespace lockstep::op::internal
