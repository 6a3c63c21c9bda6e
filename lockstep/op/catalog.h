// The ops that Lockstep knows. One declaration and one array entry per op in catalog.cc.
#pragma once

#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// Built on first use, immutable afterwards.
const OpCatalog& Catalog();

}  // namespace lockstep::op
