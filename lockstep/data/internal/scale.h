// Conversion of stored features to what a model is fed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::data::internal {

// target[i] = source[i] / 255, computed as a product with the reciprocal: in [0, 1], the ends
// exact, and the same bits whatever the instruction set.
void ScaleBytes(const uint8_t* source, size_t count, float* target);

}  // namespace lockstep::data::internal
