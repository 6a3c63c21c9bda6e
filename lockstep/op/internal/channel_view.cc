#include "lockstep/op/internal/channel_view.h"

#include <fmt/format.h>

namespace lockstep::op {
namespace {

// From the distance in memory between neighbouring groups of channels.
ChannelView FromStride(const Shape& shape, int64_t channels, int64_t block, int64_t stride) {
  ChannelView view;
  view.block = block;
  view.groups = channels / block;
  view.mid = stride / block;
  view.outer = shape.num_elements() / (view.groups * view.mid * view.block);
  return view;
}

}  // namespace

std::optional<ChannelView> MakeChannelView(const Shape& shape, const Layout& layout,
                                           int channel_axis) {
  const int64_t channels = shape[channel_axis];
  if (!layout.is_dense_for(shape)) {
    return std::nullopt;
  }
  if (shape.num_elements() == 0) {
    return ChannelView{0, 1, 1, channels};
  }
  if (layout.is_plain()) {
    int64_t stride = 1;
    for (int i = channel_axis + 1; i < shape.rank(); ++i) {
      stride *= shape[i];
    }
    return stride == 1 ? ChannelView{shape.num_elements() / channels, 1, 1, channels}
                       : FromStride(shape, channels, 1, stride);
  }
  const int64_t stride = layout.strides()[static_cast<size_t>(channel_axis)];
  if (layout.blocks().empty()) {
    if (channels == 1) {
      return ChannelView{1, 1, shape.num_elements(), 1};
    }
    return stride == 1 ? ChannelView{shape.num_elements() / channels, 1, 1, channels}
                       : FromStride(shape, channels, 1, stride);
  }
  if (layout.blocks().size() > 1 || layout.blocks()[0].dim != channel_axis) {
    return std::nullopt;
  }
  const int64_t block = layout.blocks()[0].size;
  if (channels == block) {
    return ChannelView{shape.num_elements() / channels, 1, 1, channels};
  }
  return FromStride(shape, channels, block, stride);
}

Result<int> ChannelAxis(const std::string& data_format, int rank) {
  if (data_format != "NHWC" && data_format != "NCHW") {
    return InvalidArgument(fmt::format(
        "the attribute 'data_format' is '{}', allowed are 'NHWC' and 'NCHW'", data_format));
  }
  if (rank < 2) {
    return InvalidArgument(fmt::format("input 0 has rank {}, expected 2 or more", rank));
  }
  return data_format == "NHWC" ? rank - 1 : 1;
}

}  // namespace lockstep::op
