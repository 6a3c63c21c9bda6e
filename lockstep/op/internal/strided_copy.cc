#include "lockstep/op/internal/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

// Rows of the source that a tile of a transpose spans.
constexpr int64_t kStrip = 16;

}  // namespace

StridedCopy::StridedCopy(const std::vector<Dim>& dims, size_t element_size)
    : element_size_(element_size) {
  for (const Dim& dim : dims) {
    count_ *= dim.size;
    if (dim.size == 1) {
      continue;
    }
    if (!outer_.empty() && outer_.back().from == dim.size * dim.from &&
        outer_.back().to == dim.size * dim.to) {
      outer_.back() = {outer_.back().size * dim.size, dim.from, dim.to};
    } else {
      outer_.push_back(dim);
    }
  }
  if (outer_.empty()) {
    return;
  }
  inner_ = outer_.back();
  outer_.pop_back();
  const auto nearest = std::min_element(outer_.begin(), outer_.end(),
                                        [](const Dim& a, const Dim& b) { return a.from < b.from; });
  if (nearest != outer_.end() && nearest->from < inner_.from) {
    column_ = *nearest;
    outer_.erase(nearest);
  }
}

void StridedCopy::Run(int threads, const void* from, void* to) const {
  switch (element_size_) {
    case 1:
      return RunAs(threads, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
    case 2:
      return RunAs(threads, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
    case 4:
      return RunAs(threads, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
    default:
      return RunAs(threads, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
  }
}

template <class T>
void StridedCopy::CopyPiece(int64_t strip, const T* from, T* to) const {
  if (inner_.from == 1 && inner_.to == 1 && column_.size == 1) {
    std::memcpy(to, from, static_cast<size_t>(inner_.size) * sizeof(T));
    return;
  }
  const int64_t begin = strip * kStrip;
  const int64_t end = std::min(begin + kStrip, column_.size);
  for (int64_t start = 0; start < inner_.size; start += kStrip) {
    const int64_t stop = std::min(start + kStrip, inner_.size);
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t i = start; i < stop; ++i) {
        to[c * column_.to + i * inner_.to] = from[c * column_.from + i * inner_.from];
      }
    }
  }
}

template <class T>
void StridedCopy::RunAs(int threads, const T* from, T* to) const {
  if (count_ == 0) {
    return;
  }
  const int64_t strips = (column_.size + kStrip - 1) / kStrip;
  const int64_t pieces = count_ / (inner_.size * column_.size) * strips;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, count_ / pieces));
  ParallelFor(threads, pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t position = piece / strips;
      const T* piece_from = from;
      T* piece_to = to;
      for (size_t i = outer_.size(); i-- > 0;) {
        const int64_t index = position % outer_[i].size;
        position /= outer_[i].size;
        piece_from += index * outer_[i].from;
        piece_to += index * outer_[i].to;
      }
      CopyPiece(piece % strips, piece_from, piece_to);
    }
  });
}

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace lockstep::op
