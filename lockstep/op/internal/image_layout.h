// Layouts of image tensors (rank 4, or [N, C] taken as 1 x 1 pixels) that hand-written kernels can
// walk: channels innermost, channels outermost, or blocks of channels (oneDNN's nChw8c, nChw16c).
// In all of them the memory is [blocks of channels][h][w][lanes] for each image, with one block,
// one lane, or a few.
#pragma once

#include <optional>

#include "lockstep/op/internal/window.h"
#include "lockstep/tensor/layout.h"

namespace lockstep::op::internal {

struct ImageLayout {
  enum class Kind { kChannelsLast, kChannelsFirst, kBlocked };
  Kind kind = Kind::kChannelsLast;
  // Channels in a block, for kBlocked.
  int64_t block = 1;

  friend bool operator==(const ImageLayout&, const ImageLayout&) = default;
};

Layout ToLayout(const Shape& shape, const ImageAxes& axes, const ImageLayout& image);

// None if the layout is of another kind.
std::optional<ImageLayout> ClassifyImage(const Shape& shape, const ImageAxes& axes,
                                         const Layout& layout);

// The kind of `layout`, or else the plain one.
ImageLayout ClassifyOrPlain(const Shape& shape, const ImageAxes& axes, const Layout& layout);

// What convolutions on this machine keep images of so many channels in: blocks of one vector if
// that leaves no padding, else the plain kind.
ImageLayout ConvolutionImage(const ImageAxes& axes, int64_t channels);

// Strides in elements; all kinds walk alike.
struct ImageView {
  int64_t images = 0;
  int64_t blocks = 0;  // of channels
  int64_t lanes = 0;   // channels in a block, padding included
  int64_t h = 0;
  int64_t w = 0;
  int64_t channels = 0;
  int64_t image_stride = 0;
  int64_t block_stride = 0;
  int64_t row_stride = 0;
  int64_t pixel_stride = 0;

  // One block of channels of one image.
  int64_t planes() const { return images * blocks; }

  int64_t PlaneOffset(int64_t plane) const {
    return plane / blocks * image_stride + plane % blocks * block_stride;
  }

  int64_t pixels() const { return h * w; }
};

ImageView ViewImage(const Shape& shape, const ImageAxes& axes, const ImageLayout& image);

}  // namespace lockstep::op::internal
