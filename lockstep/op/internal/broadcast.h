// Broadcasting as loops: an output walked in rows, with the place of each input's row.
//
// Axes are merged where every input allows it, so that the rows are as long as can be: equal shapes
// are one row, [n, c] + [c] are n rows of c.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lockstep/tensor/shape.h"

namespace lockstep::op {

inline constexpr int kMaxBroadcastInputs = 3;

using BroadcastOffsets = std::array<int64_t, kMaxBroadcastInputs>;

struct BroadcastPlan {
  // The output is rows * inner elements, row-major.
  int64_t rows = 1;
  int64_t inner = 1;
  // For each input 1, or 0 if one element serves the whole row.
  BroadcastOffsets inner_strides{};
  // The axes that count the rows, innermost first.
  int outer_rank = 0;
  std::array<int64_t, Shape::kMaxRank> outer_dims{};
  std::array<BroadcastOffsets, Shape::kMaxRank> outer_strides{};
};

// Every input must broadcast to `output`; all are row-major.
BroadcastPlan MakeBroadcastPlan(const Shape& output, std::span<const Shape> inputs);

// Calls body(row, offsets of the inputs' first elements) for the rows [begin, end).
template <class Body>
void ForEachRow(const BroadcastPlan& plan, int64_t begin, int64_t end, const Body& body) {
  if (begin >= end) {
    return;
  }
  std::array<int64_t, Shape::kMaxRank> position{};
  BroadcastOffsets offsets{};
  int64_t rest = begin;
  for (size_t axis = 0; axis < static_cast<size_t>(plan.outer_rank); ++axis) {
    position[axis] = rest % plan.outer_dims[axis];
    rest /= plan.outer_dims[axis];
    for (size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] += position[axis] * plan.outer_strides[axis][i];
    }
  }
  for (int64_t row = begin; row < end; ++row) {
    body(row, offsets);
    for (size_t axis = 0; axis < static_cast<size_t>(plan.outer_rank); ++axis) {
      const bool carry = ++position[axis] == plan.outer_dims[axis];
      const int64_t steps = carry ? 1 - plan.outer_dims[axis] : 1;
      for (size_t i = 0; i < offsets.size(); ++i) {
        offsets[i] += steps * plan.outer_strides[axis][i];
      }
      if (!carry) {
        break;
      }
      position[axis] = 0;
    }
  }
}

}  // namespace lockstep::op
