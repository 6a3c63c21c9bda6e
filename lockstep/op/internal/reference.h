// Small pieces of float64 references.
#pragma once

#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// output 0 = input 0, element by element.
inline Status CopyReference(const ReferenceContext& ctx) {
  ctx.outputs[0] = ctx.inputs[0];
  return OkStatus();
}

}  // namespace lockstep::op
