// Fusion: fewer passes over memory.
//
//   Conv2D, MatMul + BiasAdd [+ Relu]          FusedConv2D, FusedMatMul
//   BatchNorm + Relu, and their gradients      FusedBatchNormRelu, FusedBatchNormReluGrad
//   trees of element-wise ops                  FusedElementwise
//
// Values that something else reads, fetches or waits for stay what they are.
#pragma once

#include "lockstep/pass/specialize.h"

namespace lockstep::pass {

Result<SpecializedGraph> Fuse(SpecializedGraph graph);

// The single passes.
Result<SpecializedGraph> FuseBatchNorm(SpecializedGraph graph);
Result<SpecializedGraph> FuseBias(SpecializedGraph graph);
Result<SpecializedGraph> FuseElementwise(SpecializedGraph graph);

}  // namespace lockstep::pass
