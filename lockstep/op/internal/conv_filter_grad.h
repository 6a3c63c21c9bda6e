// Hand-written filter gradients for processors with AVX2 but not AVX-512, where oneDNN's reach half
// of the arithmetic limit or less. float32, one group. Results do not depend on the number of
// threads.
#pragma once

#include <optional>

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/conv_spec.h"

namespace lockstep::op::internal {

// Up to so many input channels are read unblocked.
inline constexpr int64_t kNarrowChannels = 4;

// None if oneDNN is to be used. Inputs x (whose present layout is given), dy, filter (shape only);
// output dfilter in the layout that oneDNN's forward convolution takes.
std::optional<Kernel> MakeAvx2FilterGrad(const ConvSpec& spec, const Layout& x_layout);

// The part of it for up to kNarrowChannels input channels.
Kernel MakeNarrowFilterGrad(const ConvSpec& spec, const Layout& x_layout);

}  // namespace lockstep::op::internal
