#include "lockstep/pass/fuse.h"

namespace lockstep::pass {

Result<SpecializedGraph> Fuse(SpecializedGraph graph) {
  LS_ASSIGN_OR_RETURN(graph, FuseBatchNorm(std::move(graph)));
  LS_ASSIGN_OR_RETURN(graph, FuseBias(std::move(graph)));
  return FuseElementwise(std::move(graph));
}

}  // namespace lockstep::pass
