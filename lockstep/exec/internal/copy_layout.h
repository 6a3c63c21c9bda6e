// One-off copies between layouts, for what happens outside of a plan's steps.
#pragma once

#include "lockstep/base/status.h"
#include "lockstep/tensor/layout.h"

namespace lockstep::exec {

// The buffers must not overlap.
Status CopyLayout(const Shape& shape, DType dtype, const Layout& from, const void* source,
                  const Layout& to, void* target);

}  // namespace lockstep::exec
