#include "lockstep/op/internal/box.h"

#include <fmt/format.h>

namespace lockstep::op {
namespace {

std::vector<StridedCopy::Dim> BoxDims(const Shape& box, const Shape& from, const Shape& to) {
  const std::vector<int64_t> from_strides = RowMajorStrides(from);
  const std::vector<int64_t> to_strides = RowMajorStrides(to);
  std::vector<StridedCopy::Dim> dims;
  for (int i = 0; i < box.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    dims.push_back({box[i], from_strides[axis], to_strides[axis]});
  }
  return dims;
}

}  // namespace

Status CheckBox(std::span<const int64_t> begin, const Shape& inside, const Shape& outside) {
  if (static_cast<int>(begin.size()) != outside.rank() || inside.rank() != outside.rank()) {
    return InvalidArgument(fmt::format(
        "the attribute 'begin' has {} values for shapes {} and {}: all three must have one for "
        "each axis",
        begin.size(), inside.ToString(), outside.ToString()));
  }
  for (int i = 0; i < outside.rank(); ++i) {
    const int64_t start = begin[static_cast<size_t>(i)];
    if (start < 0) {
      return InvalidArgument(
          fmt::format("the attribute 'begin' is {} for axis {}, allowed is 0 or more", start, i));
    }
    const int64_t size = std::max<int64_t>(inside[i], 0);
    if (outside[i] >= 0 && (start > outside[i] || size > outside[i] - start)) {
      return InvalidArgument(
          fmt::format("{} elements from {} on were asked for of axis {}, which has {}", size, start,
                      i, outside[i]));
    }
  }
  return OkStatus();
}

int64_t BoxOffset(std::span<const int64_t> begin, const Shape& outside) {
  const std::vector<int64_t> strides = RowMajorStrides(outside);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += begin[i] * strides[i];
  }
  return offset;
}

StridedCopy CopyFromBox(const Shape& box, const Shape& outside, size_t element_size) {
  return StridedCopy(BoxDims(box, outside, box), element_size);
}

StridedCopy CopyToBox(const Shape& box, const Shape& outside, size_t element_size) {
  return StridedCopy(BoxDims(box, box, outside), element_size);
}

}  // namespace lockstep::op
