// Kernels of ops whose output is the storage of input 0 under another shape.
#pragma once

#include "lockstep/graph/kernel.h"

namespace lockstep::op {

// Output 0 is input 0 in the same layout (shapes must be equal). An input that is a variable is
// copied instead, so that a later write does not change what was read.
Result<Kernel> SameShapeViewKernel(const KernelRequest& request);

// The same for an output of another shape: both are plain.
Result<Kernel> ReshapeViewKernel(const KernelRequest& request);

}  // namespace lockstep::op
