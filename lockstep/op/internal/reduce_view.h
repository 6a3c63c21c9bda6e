// ReduceView: a row-major tensor of which some axes are reduced, with neighbouring axes of the same
// kind merged and axes of size 1 dropped, so that a kernel sees the fewest dimensions: they
// alternate between kept and reduced ones.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::op {

// For each axis whether it is reduced. `axes` counts from the end if negative; empty means all.
// An axis out of range or named twice is an error.
Result<std::vector<bool>> ReducedAxes(std::span<const int64_t> axes, int rank);

// The shape without the reduced axes, or with 1 in their place.
Shape ReducedShape(const Shape& shape, const std::vector<bool>& reduced, bool keep_dims);

struct ReduceView {
  struct Dim {
    int64_t size;
    int64_t stride;  // in elements of the unreduced tensor
  };

  std::vector<Dim> kept;
  std::vector<Dim> reduced;
  int64_t kept_count = 1;
  int64_t reduced_count = 1;
  // The innermost dimension (stride 1) is a reduced one. False for a single element.
  bool inner_reduced = false;
};

ReduceView MakeReduceView(const Shape& shape, const std::vector<bool>& reduced);

// Walks over the positions of some dimensions in row-major order and yields their offsets.
class Odometer {
 public:
  // `dims` must outlive the odometer; the last one is left out if `skip_last`.
  Odometer(const std::vector<ReduceView::Dim>& dims, bool skip_last)
      : dims_(dims), count_(dims.size() - (skip_last && !dims.empty() ? 1 : 0)) {}

  int64_t offset() const { return offset_; }

  int64_t positions() const {
    int64_t product = 1;
    for (size_t i = 0; i < count_; ++i) {
      product *= dims_[i].size;
    }
    return product;
  }

  void Next() {
    for (size_t i = count_; i-- > 0;) {
      offset_ += dims_[i].stride;
      if (++index_[i] < dims_[i].size) {
        return;
      }
      offset_ -= index_[i] * dims_[i].stride;
      index_[i] = 0;
    }
  }

  // 0 <= position < positions().
  void Seek(int64_t position) {
    offset_ = 0;
    for (size_t i = count_; i-- > 0;) {
      index_[i] = position % dims_[i].size;
      position /= dims_[i].size;
      offset_ += index_[i] * dims_[i].stride;
    }
  }

 private:
  const std::vector<ReduceView::Dim>& dims_;
  size_t count_;
  int64_t offset_ = 0;
  std::array<int64_t, Shape::kMaxRank> index_{};
};

}  // namespace lockstep::op
