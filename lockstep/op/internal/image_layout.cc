#include "lockstep/op/internal/image_layout.h"

#include <array>

#include "lockstep/op/internal/onednn.h"

namespace lockstep::op::internal {
namespace {

using Kind = ImageLayout::Kind;

ImageLayout PlainKind(const ImageAxes& axes) {
  return {axes.c == 3 ? Kind::kChannelsLast : Kind::kChannelsFirst, 1};
}

}  // namespace

ImageLayout ConvolutionImage(const ImageAxes& axes, int64_t channels) {
  const int64_t block = VectorWidth();
  return channels > 0 && channels % block == 0 ? ImageLayout{Kind::kBlocked, block}
                                               : PlainKind(axes);
}

ImageView ViewImage(const Shape& shape, const ImageAxes& axes, const ImageLayout& image) {
  ImageView view;
  view.images = shape[axes.n];
  view.channels = shape[axes.c];
  view.h = shape[axes.h];
  view.w = shape[axes.w];
  switch (image.kind) {
    case Kind::kChannelsLast:
      view.blocks = 1;
      view.lanes = view.channels;
      break;
    case Kind::kChannelsFirst:
      view.blocks = view.channels;
      view.lanes = 1;
      break;
    case Kind::kBlocked:
      view.lanes = image.block;
      view.blocks = (view.channels + view.lanes - 1) / view.lanes;
      break;
  }
  view.pixel_stride = view.lanes;
  view.row_stride = view.w * view.lanes;
  view.block_stride = view.h * view.row_stride;
  view.image_stride = view.blocks * view.block_stride;
  return view;
}

Layout ToLayout(const Shape& shape, const ImageAxes& axes, const ImageLayout& image) {
  const ImageView view = ViewImage(shape, axes, image);
  std::array<int64_t, 4> padded{};
  std::array<int64_t, 4> strides{};
  const auto set = [&](int axis, int64_t size, int64_t stride) {
    padded[static_cast<size_t>(axis)] = size;
    strides[static_cast<size_t>(axis)] = stride;
  };
  set(axes.n, view.images, view.image_stride);
  set(axes.h, view.h, view.row_stride);
  set(axes.w, view.w, view.pixel_stride);
  if (image.kind == Kind::kChannelsLast) {
    set(axes.c, view.channels, 1);
  } else {
    set(axes.c, view.blocks * view.lanes, view.block_stride);
  }
  if (image.kind != Kind::kBlocked) {
    return Layout::Blocked(shape, padded, strides, {});
  }
  const std::array<Layout::Block, 1> block = {Layout::Block{axes.c, image.block}};
  return Layout::Blocked(shape, padded, strides, block);
}

std::optional<ImageLayout> ClassifyImage(const Shape& shape, const ImageAxes& axes,
                                         const Layout& layout) {
  if (layout.is_plain()) {
    return PlainKind(axes);
  }
  ImageLayout image;
  if (layout.blocks().size() == 1 && layout.blocks()[0].dim == axes.c) {
    image = {Kind::kBlocked, layout.blocks()[0].size};
  } else {
    image.kind = axes.c == 3 ? Kind::kChannelsFirst : Kind::kChannelsLast;
  }
  return ToLayout(shape, axes, image) == layout ? std::optional(image) : std::nullopt;
}

ImageLayout ClassifyOrPlain(const Shape& shape, const ImageAxes& axes, const Layout& layout) {
  return ClassifyImage(shape, axes, layout).value_or(PlainKind(axes));
}

}  // namespace lockstep::op::internal
