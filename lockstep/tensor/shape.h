// Shape: the dimensions of a tensor, row-major. In a graph a dimension may be unknown (kUnknownDim,
// printed as '?'), such as the batch; a tensor's own shape is always fully known. Rank 0 is a
// scalar.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "lockstep/base/result.h"

namespace lockstep {

class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kUnknownDim = -1;

  Shape() = default;
  // For literals; more than kMaxRank dimensions or one below -1 is a programmer error.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  // For untrusted dimensions: checks rank, sign, and that the element count stays below 2^62.
  static Result<Shape> Create(std::span<const int64_t> dims);

  int rank() const { return rank_; }

  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }

  // The dimension `axis`, counted from the end if negative.
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)]; }

  void set_dim(int axis, int64_t size) { dims_[static_cast<size_t>(axis)] = size; }

  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  void Append(int64_t size);

  bool fully_known() const;

  // Product of all dimensions; 1 for a scalar. The shape must be fully known.
  int64_t num_elements() const;

  // True if every dimension known in both is equal and the ranks are equal.
  bool CompatibleWith(const Shape& other) const;

  // "[?, 28, 28, 1]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

// The shape of an element-wise result of a and b (NumPy's rules; an unknown dimension against 1
// stays unknown, against n > 1 becomes n).
Result<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Turns an axis in [-rank, rank) into [0, rank).
Result<int> NormalizeAxis(int64_t axis, int rank);

}  // namespace lockstep
