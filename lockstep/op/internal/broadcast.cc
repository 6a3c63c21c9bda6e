#include "lockstep/op/internal/broadcast.h"

namespace lockstep::op {
namespace {

// The stride of each input along each axis of the output; 0 where it repeats.
std::array<BroadcastOffsets, Shape::kMaxRank> StridesOf(const Shape& output,
                                                        std::span<const Shape> inputs) {
  std::array<BroadcastOffsets, Shape::kMaxRank> strides{};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& input = inputs[i];
    int64_t stride = 1;
    for (int axis = input.rank() - 1; axis >= 0; --axis) {
      const int output_axis = axis + output.rank() - input.rank();
      strides[static_cast<size_t>(output_axis)][i] = input[axis] == 1 ? 0 : stride;
      stride *= input[axis];
    }
  }
  return strides;
}

bool Merges(const BroadcastOffsets& inner, int64_t inner_dim, const BroadcastOffsets& outer) {
  for (size_t i = 0; i < inner.size(); ++i) {
    if (outer[i] != inner[i] * inner_dim) {
      return false;
    }
  }
  return true;
}

}  // namespace

BroadcastPlan MakeBroadcastPlan(const Shape& output, std::span<const Shape> inputs) {
  LS_CHECK(inputs.size() <= kMaxBroadcastInputs);
  const auto strides = StridesOf(output, inputs);
  // Merged axes, innermost first.
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::array<BroadcastOffsets, Shape::kMaxRank> merged{};
  size_t count = 0;
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int64_t dim = output[axis];
    const BroadcastOffsets& stride = strides[static_cast<size_t>(axis)];
    if (dim == 1) {
      continue;
    }
    if (count > 0 && Merges(merged[count - 1], dims[count - 1], stride)) {
      dims[count - 1] *= dim;
      continue;
    }
    dims[count] = dim;
    merged[count] = stride;
    ++count;
  }
  BroadcastPlan plan;
  if (count == 0) {
    plan.inner_strides.fill(1);
    return plan;
  }
  plan.inner = dims[0];
  plan.inner_strides = merged[0];
  plan.outer_rank = static_cast<int>(count) - 1;
  for (size_t axis = 1; axis < count; ++axis) {
    plan.outer_dims[axis - 1] = dims[axis];
    plan.outer_strides[axis - 1] = merged[axis];
    plan.rows *= dims[axis];
  }
  return plan;
}

}  // namespace lockstep::op
