// Copies a tensor from one layout and element type to another.
#pragma once

#include <cstddef>
#include <functional>

#include "lockstep/base/result.h"
#include "lockstep/tensor/layout.h"

namespace lockstep::op {

struct Reorder {
  // Memory that `run` needs, aligned to 64 bytes.
  size_t scratch_bytes = 0;
  // Writes all bytes of the target, its padding as zeros. The buffers must not overlap. One thread
  // at a time.
  std::function<Status(const void* from, void* to, void* scratch)> run;
};

// Works for every pair of types and layouts; fast for float32 and bfloat16.
Result<Reorder> MakeReorder(const Shape& shape, DType from_dtype, const Layout& from,
                            DType to_dtype, const Layout& to, int threads = 1);

}  // namespace lockstep::op
