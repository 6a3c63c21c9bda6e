// ChannelView: a dense tensor seen as a flat array in which the channel of an element follows a
// regular pattern: [outer][groups][mid][block], where channel = group * block + position in the
// block. NHWC is {N*H*W, 1, 1, C}, NCHW {N, C, H*W, 1}, and a tensor blocked by 8 channels
// {N, C/8, H*W, 8}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/result.h"
#include "lockstep/tensor/layout.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::op {

struct ChannelView {
  int64_t outer = 1;
  int64_t groups = 1;
  int64_t mid = 1;
  int64_t block = 1;

  int64_t channels() const { return groups * block; }
};

// None if the layout is padded or blocked in another way.
std::optional<ChannelView> MakeChannelView(const Shape& shape, const Layout& layout,
                                           int channel_axis);

// The axis of the channels for the attribute data_format of an op on tensors of `rank` 2 or more:
// "NHWC" means the last one, "NCHW" axis 1.
Result<int> ChannelAxis(const std::string& data_format, int rank);

}  // namespace lockstep::op
