#include "lockstep/op/internal/row_indices.h"

#include <fmt/format.h>

namespace lockstep::op {
namespace {

Status BadIndex(int64_t position, int64_t index, int64_t rows) {
  if (rows == 0) {
    return InvalidArgument(
        fmt::format("index {} at position {}: the table has no rows", index, position));
  }
  return InvalidArgument(fmt::format("index {} at position {} is out of range, allowed are 0 to {}",
                                     index, position, rows - 1));
}

}  // namespace

Status ExpectIndexType(const InferContext& ctx, int input) {
  if (ctx.dtype(input) == DType::kInt32 || ctx.dtype(input) == DType::kInt64) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format("input {}, the indices, is {}, expected int32 or int64", input,
                                     DTypeName(ctx.dtype(input))));
}

Status CheckIndices(const void* indices, DType dtype, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = IndexAt(indices, dtype, i);
    if (index < 0 || index >= rows) {
      return BadIndex(i, index, rows);
    }
  }
  return OkStatus();
}

Status CheckIndices(std::span<const double> indices, int64_t rows) {
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<int64_t>(indices[i]);
    if (index < 0 || index >= rows) {
      return BadIndex(static_cast<int64_t>(i), index, rows);
    }
  }
  return OkStatus();
}

}  // namespace lockstep::op
