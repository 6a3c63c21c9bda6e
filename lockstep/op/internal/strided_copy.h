// StridedCopy: copies a box of elements between two arrays with any strides. Prepared once, run
// many times. Transposes go in tiles, so that neither side is read or written far apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/tensor/shape.h"

namespace lockstep::op {

class StridedCopy {
 public:
  // Strides in elements.
  struct Dim {
    int64_t size;
    int64_t from;
    int64_t to;
  };

  // Outermost (in the target) first. `element_size` is 1, 2, 4 or 8.
  StridedCopy(const std::vector<Dim>& dims, size_t element_size);

  // The pointers are those of the box's first element; the arrays do not overlap.
  void Run(int threads, const void* from, void* to) const;

 private:
  template <class T>
  void RunAs(int threads, const T* from, T* to) const;
  // One piece: the innermost dimension, or a tile of it and column_.
  template <class T>
  void CopyPiece(int64_t strip, const T* from, T* to) const;

  std::vector<Dim> outer_;  // all but the two below
  Dim inner_ = {1, 1, 1};
  // The dimension with the smallest stride in the source, where that is not `inner_`.
  Dim column_ = {1, 0, 0};
  size_t element_size_;
  int64_t count_ = 1;
};

// Elements between neighbours along each axis of a row-major array.
std::vector<int64_t> RowMajorStrides(const Shape& shape);

}  // namespace lockstep::op
