// Merging models that were trained apart: the weighted average of their parameters (as federated
// averaging does: McMahan et al., arXiv 1602.05629).
#pragma once

#include <span>

#include "lockstep/train/checkpoint.h"

namespace lockstep::train {

// The model variables (running statistics included) of the checkpoints, each element the sum of
// weight * element in float64, in the order of the checkpoints, over the sum of the weights,
// rounded once to the variable's type. Slots are left out: the result can be evaluated, but is no
// run to go on with. What else it says is the first one's, its step the greatest.
//
// Errors, which name the checkpoint: INVALID_ARGUMENT for no checkpoints, or weights that are not
// one finite number of at least 0 each, or all 0; FAILED_PRECONDITION for models that differ, with
// what does.
Result<Checkpoint> MergeCheckpoints(std::span<const Checkpoint> checkpoints,
                                    std::span<const double> weights);

}  // namespace lockstep::train
