// A kernel that runs an op's float64 reference: for types that no fast kernel exists for. Allocates
// when it runs.
#pragma once

#include "lockstep/graph/kernel.h"

namespace lockstep::exec {

Result<Kernel> MakeReferenceKernel(const KernelRequest& request);

}  // namespace lockstep::exec
