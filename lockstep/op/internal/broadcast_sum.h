// Sums a float32 tensor over the axes along which a smaller shape would broadcast to it.
//
// The order of additions depends on the shapes alone, not on threads. Long sums are cut into blocks
// of a fixed size, so that the error stays far below that of one running sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/op/internal/broadcast.h"

namespace lockstep::op {

class BroadcastSum {
 public:
  // `output` must broadcast to `input`.
  BroadcastSum(const Shape& input, const Shape& output, int threads);

  // Bytes of scratch memory that Run needs.
  size_t scratch_bytes() const;

  void Run(const float* x, float* y, float* scratch) const;

 private:
  bool sums_everything() const { return !inner_kept_ && kept_.rows == 1 && summed_.rows == 1; }

  void SumAll(const float* x, float* y, float* partials) const;
  void SumRows(const float* x, float* y) const;
  void SumColumns(const float* x, float* y) const;

  int threads_;
  // The innermost axis, after merging, and the axes outside it by their fate. The rows of the plans
  // are offsets into the input.
  bool inner_kept_ = false;
  int64_t inner_ = 1;
  BroadcastPlan kept_;
  BroadcastPlan summed_;
};

}  // namespace lockstep::op
