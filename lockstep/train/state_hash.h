// Hashes of the state of a run, by which two runs can be compared bit by bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/exec/variable_store.h"

namespace lockstep::train {

// SHA-256 in hexadecimal over the named variables in the given order: name, element type, shape,
// and row-major little-endian bytes of each, where texts and shapes are preceded by their length as
// 8 little-endian bytes, as is each dimension.
Result<std::string> HashVariables(const exec::VariableStore& store,
                                  std::span<const std::string> names);

// The same over model variables, then slots, then the global step.
Result<std::string> HashState(const exec::VariableStore& store,
                              std::span<const std::string> model_variables,
                              std::span<const std::string> slot_variables, int64_t global_step);

}  // namespace lockstep::train
