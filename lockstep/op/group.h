// Group: a node without inputs or outputs that runs after others; a target for steps.
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::op {

// A NoOp node that runs after the nodes of all `values`; null after an error.
Node* Group(BuildContext ctx, const std::vector<Value>& values, std::string_view name = {});
// The same for nodes, which need not have outputs.
Node* Group(BuildContext ctx, const std::vector<Node*>& nodes, std::string_view name = {});

}  // namespace lockstep::op
