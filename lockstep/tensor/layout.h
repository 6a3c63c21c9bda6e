// Layout: where the elements of a logical, row-major tensor lie in memory. Feeds, fetches,
// checkpoints and the wire are always plain (row-major, no padding); inside a plan a kernel may
// keep a tensor blocked, as oneDNN's convolutions do.
//
// A blocked layout is oneDNN's blocking description in the tensor's own order of dimensions: each
// dimension is padded and split by the inner blocks (listed outermost first); what remains of it is
// addressed with its outer stride. Example: [n, c, h, w] as nChw8c has strides {C/8*H*W*8, H*W*8,
// W*8, 8} and one inner block {dim 1, size 8}.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

class Layout {
 public:
  static constexpr int kMaxBlocks = 6;

  struct Block {
    int dim;
    int64_t size;
    friend bool operator==(const Block&, const Block&) = default;
  };

  // Plain.
  Layout() = default;

  // Strides in elements of the outer (block-count) index of each dimension. A description that
  // equals row-major without padding becomes the plain layout, so that equality means what it says.
  static Layout Blocked(const Shape& shape, std::span<const int64_t> padded_dims,
                        std::span<const int64_t> strides, std::span<const Block> blocks);

  bool is_plain() const { return plain_; }

  // No element of the storage is padding, so an element-wise kernel may treat it as a flat array.
  bool is_dense_for(const Shape& shape) const;

  // Only for layouts that are not plain.
  std::span<const int64_t> padded_dims() const { return {padded_dims_.data(), rank()}; }

  std::span<const int64_t> strides() const { return {strides_.data(), rank()}; }

  std::span<const Block> blocks() const {
    return {blocks_.data(), static_cast<size_t>(block_count_)};
  }

  // Bytes of storage for a tensor of this shape and type, padding included.
  size_t Bytes(const Shape& shape, DType dtype) const;

  // Offset in elements of the element at `index` (one value per dimension of `shape`).
  int64_t OffsetOf(const Shape& shape, std::span<const int64_t> index) const;

  // "plain", or "strides [...] blocks 1:8".
  std::string ToString() const;

  friend bool operator==(const Layout& a, const Layout& b) = default;

 private:
  size_t rank() const { return static_cast<size_t>(rank_); }

  bool plain_ = true;
  int rank_ = 0;
  int block_count_ = 0;
  std::array<int64_t, Shape::kMaxRank> padded_dims_{};
  std::array<int64_t, Shape::kMaxRank> strides_{};
  std::array<Block, kMaxBlocks> blocks_{};
};

}  // namespace lockstep
