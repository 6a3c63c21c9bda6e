// Row numbers that a step brings: int32 or int64, checked before they are used.
#pragma once

#include <cstdint>

#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// int32 or int64.
Status ExpectIndexType(const InferContext& ctx, int input);

// Reads index i of an array of `dtype`.
inline int64_t IndexAt(const void* indices, DType dtype, int64_t i) {
  return dtype == DType::kInt32 ? static_cast<const int32_t*>(indices)[i]
                                : static_cast<const int64_t*>(indices)[i];
}

// All of the `count` indices must be in [0, rows); the error names the first that is not.
Status CheckIndices(const void* indices, DType dtype, int64_t count, int64_t rows);

// The same for a reference's doubles.
Status CheckIndices(std::span<const double> indices, int64_t rows);

}  // namespace lockstep::op
