// Whether the workers of a job still hold the same variables, bit by bit. In synchronous training
// they do; where they do not, a machine computes something else than the others (other numeric
// libraries, broken memory), and its results spread from there.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/exec/variable_store.h"
#include "lockstep/train/workers.h"

namespace lockstep::train {

// All workers call it together, with the same names in the same order. DATA_LOSS names the workers
// whose variables differ from those of most (of the first of them, where as many differ), and the
// first variable that does; the same error everywhere.
Status CheckReplicas(const exec::VariableStore& store, std::span<const std::string> names,
                     int64_t step, Workers& workers);

}  // namespace lockstep::train
