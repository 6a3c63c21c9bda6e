#include "lockstep/tensor/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

bool IsRowMajor(const Shape& shape, std::span<const int64_t> padded_dims,
                std::span<const int64_t> strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const auto axis = static_cast<size_t>(i);
    if (padded_dims[axis] != shape[i]) {
      return false;
    }
    if (shape[i] != 1 && strides[axis] != expected) {
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

}  // namespace

Layout Layout::Blocked(const Shape& shape, std::span<const int64_t> padded_dims,
                       std::span<const int64_t> strides, std::span<const Block> blocks) {
  const auto rank = static_cast<size_t>(shape.rank());
  LS_CHECK(padded_dims.size() == rank && strides.size() == rank);
  LS_CHECK(blocks.size() <= kMaxBlocks);
  Layout layout;
  if (blocks.empty() && IsRowMajor(shape, padded_dims, strides)) {
    return layout;
  }
  layout.plain_ = false;
  layout.rank_ = shape.rank();
  layout.block_count_ = static_cast<int>(blocks.size());
  std::copy(padded_dims.begin(), padded_dims.end(), layout.padded_dims_.begin());
  std::copy(strides.begin(), strides.end(), layout.strides_.begin());
  std::copy(blocks.begin(), blocks.end(), layout.blocks_.begin());
  return layout;
}

bool Layout::is_dense_for(const Shape& shape) const {
  return plain_ || std::equal(padded_dims().begin(), padded_dims().end(), shape.dims().begin(),
                              shape.dims().end());
}

size_t Layout::Bytes(const Shape& shape, DType dtype) const {
  if (plain_) {
    return static_cast<size_t>(shape.num_elements()) * DTypeSize(dtype);
  }
  int64_t elements = 1;
  for (const int64_t dim : padded_dims()) {
    elements *= dim;
  }
  return static_cast<size_t>(elements) * DTypeSize(dtype);
}

int64_t Layout::OffsetOf(const Shape& shape, std::span<const int64_t> index) const {
  int64_t offset = 0;
  if (plain_) {
    for (int i = 0; i < shape.rank(); ++i) {
      offset = offset * shape[i] + index[static_cast<size_t>(i)];
    }
    return offset;
  }
  std::array<int64_t, Shape::kMaxRank> outer{};
  std::copy(index.begin(), index.end(), outer.begin());
  int64_t inner_stride = 1;
  for (int i = block_count_ - 1; i >= 0; --i) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    int64_t& position = outer[static_cast<size_t>(block.dim)];
    offset += (position % block.size) * inner_stride;
    position /= block.size;
    inner_stride *= block.size;
  }
  for (size_t i = 0; i < rank(); ++i) {
    offset += outer[i] * strides_[i];
  }
  return offset;
}

std::string Layout::ToString() const {
  if (plain_) {
    return "plain";
  }
  std::string text = fmt::format("strides [{}] blocks", fmt::join(strides(), ", "));
  for (const Block& block : blocks()) {
    text += fmt::format(" {}:{}", block.dim, block.size);
  }
  return text;
}

}  // namespace lockstep
