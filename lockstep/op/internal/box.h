// Boxes inside of row-major tensors: what slicing, padding and concatenating copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/strided_copy.h"

namespace lockstep::op {

// Checks that `begin` has one value of 0 or more for each axis of `outside`, and that the box of
// shape `inside` at `begin` lies in it, as far as sizes are known.
Status CheckBox(std::span<const int64_t> begin, const Shape& inside, const Shape& outside);

// The position in `outside` of the element at `begin`.
int64_t BoxOffset(std::span<const int64_t> begin, const Shape& outside);

// Copies of a box between a tensor of its own shape and a larger one, from or to the element at
// BoxOffset.
StridedCopy CopyFromBox(const Shape& box, const Shape& outside, size_t element_size);
StridedCopy CopyToBox(const Shape& box, const Shape& outside, size_t element_size);

// For references: calls visit(position in the box, position in `outside`) for every element.
template <class Visit>
void ForEachInBox(std::span<const int64_t> begin, const Shape& box, const Shape& outside,
                  const Visit& visit) {
  const std::vector<int64_t> strides = RowMajorStrides(outside);
  const int64_t offset = BoxOffset(begin, outside);
  for (int64_t i = 0; i < box.num_elements(); ++i) {
    int64_t rest = i;
    int64_t position = offset;
    for (int axis = box.rank() - 1; axis >= 0; --axis) {
      position += rest % box[axis] * strides[static_cast<size_t>(axis)];
      rest /= box[axis];
    }
    visit(static_cast<size_t>(i), static_cast<size_t>(position));
  }
}

}  // namespace lockstep::op
