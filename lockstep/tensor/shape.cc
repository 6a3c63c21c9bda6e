#include "lockstep/tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  LS_CHECK(dims.size() <= static_cast<size_t>(kMaxRank));
  for (const int64_t dim : dims) {
    LS_CHECK(dim >= kUnknownDim);
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
}

Result<Shape> Shape::Create(std::span<const int64_t> dims) {
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return InvalidArgument(
        fmt::format("a shape has {} dimensions, allowed are at most {}", dims.size(), kMaxRank));
  }
  int64_t elements = 1;
  bool has_zero = false;
  for (const int64_t dim : dims) {
    if (dim < kUnknownDim) {
      return InvalidArgument(
          fmt::format("a shape has the dimension {}, allowed are 0 and more, "
                      "or -1 for unknown",
                      dim));
    }
    has_zero = has_zero || dim == 0;
    if (dim > 0 && __builtin_mul_overflow(elements, dim, &elements)) {
      elements = INT64_MAX;
    }
  }
  constexpr int64_t kMaxElements = int64_t{1} << 62;
  if (!has_zero && elements >= kMaxElements) {
    return InvalidArgument(
        fmt::format("a shape [{}] has 2^62 elements or more", fmt::join(dims, ", ")));
  }
  return Shape(dims);
}

void Shape::Append(int64_t size) {
  LS_CHECK(rank_ < kMaxRank);
  dims_[static_cast<size_t>(rank_++)] = size;
}

bool Shape::fully_known() const {
  return std::none_of(dims().begin(), dims().end(), [](int64_t dim) { return dim < 0; });
}

int64_t Shape::num_elements() const {
  // Unsigned, because large dimensions beside a zero may wrap around before they meet it.
  uint64_t elements = 1;
  for (const int64_t dim : dims()) {
    LS_CHECK(dim >= 0);
    elements *= static_cast<uint64_t>(dim);
  }
  return static_cast<int64_t>(elements);
}

bool Shape::CompatibleWith(const Shape& other) const {
  if (rank_ != other.rank_) {
    return false;
  }
  for (int i = 0; i < rank_; ++i) {
    if ((*this)[i] >= 0 && other[i] >= 0 && (*this)[i] != other[i]) {
      return false;
    }
  }
  return true;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    text += i == 0 ? "" : ", ";
    text += (*this)[i] < 0 ? "?" : fmt::format("{}", (*this)[i]);
  }
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.dims().begin(), a.dims().end(), b.dims().begin());
}

Result<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result;
  for (int i = 0; i < rank; ++i) {
    const int a_axis = i - (rank - a.rank());
    const int b_axis = i - (rank - b.rank());
    const int64_t a_dim = a_axis < 0 ? 1 : a[a_axis];
    const int64_t b_dim = b_axis < 0 ? 1 : b[b_axis];
    if (a_dim == b_dim || b_dim == 1) {
      result.Append(a_dim);
    } else if (a_dim == 1) {
      result.Append(b_dim);
    } else if (a_dim < 0 || b_dim < 0) {
      result.Append(std::max(a_dim, b_dim));
    } else {
      return InvalidArgument(
          fmt::format("shapes {} and {} do not broadcast: in the axis {} from the end {} stands "
                      "against {}, and neither is 1",
                      a.ToString(), b.ToString(), rank - i, a_dim, b_dim));
    }
  }
  return result;
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgument(fmt::format("axis {} is out of range for rank {}: allowed are {} to {}",
                                       axis, rank, -rank, rank - 1));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace lockstep
