#include "lockstep/op/internal/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::op::internal {
namespace {

// These keep every product of a side and a setting far from overflow.
constexpr int64_t kLimit = int64_t{1} << 20;
constexpr int64_t kSideLimit = int64_t{1} << 40;

Status CheckInts(const AttrMap& attrs, std::string_view name, size_t count, int64_t low) {
  const std::vector<int64_t>& values = attrs.GetInts(name);
  const bool in_range = std::all_of(values.begin(), values.end(), [low](int64_t value) {
    return value >= low && value <= kLimit;
  });
  if (values.size() != count || !in_range) {
    return InvalidArgument(fmt::format("{} is {}, expected {} numbers from {} to {}", name,
                                       AttrToString(*attrs.Find(name)), count, low, kLimit));
  }
  return OkStatus();
}

Status ResolveOutput(const std::string& padding, std::string_view axis, Window& window) {
  if (window.input == Shape::kUnknownDim) {
    window.output = Shape::kUnknownDim;
    return OkStatus();
  }
  const int64_t reach = window.reach();
  if (padding == "SAME") {
    window.output = (window.input + window.stride - 1) / window.stride;
    const int64_t total =
        std::max<int64_t>((window.output - 1) * window.stride + reach - window.input, 0);
    window.pad_low = total / 2;
    window.pad_high = total - window.pad_low;
  }
  const int64_t padded = window.input + window.pad_low + window.pad_high;
  if (window.input < 1 || padded < reach) {
    return InvalidArgument(
        fmt::format("a window of {} {} does not fit into the input's {} (padding included)", axis,
                    reach, padded));
  }
  if (padding != "SAME") {
    window.output = (padded - reach) / window.stride + 1;
  }
  return OkStatus();
}

}  // namespace

Result<ImageAxes> ParseDataFormat(const AttrMap& attrs) {
  const std::string& format = attrs.GetString("data_format");
  if (format == "NHWC") {
    return kNhwcAxes;
  }
  if (format == "NCHW") {
    return kNchwAxes;
  }
  return InvalidArgument(fmt::format("data_format is '{}', allowed: NHWC, NCHW", format));
}

Shape MakeImageShape(const ImageAxes& axes, int64_t n, int64_t c, int64_t h, int64_t w) {
  Shape shape{0, 0, 0, 0};
  shape.set_dim(axes.n, n);
  shape.set_dim(axes.c, c);
  shape.set_dim(axes.h, h);
  shape.set_dim(axes.w, w);
  return shape;
}

Status CheckImageSides(int64_t height, int64_t width) {
  if (height > kSideLimit || width > kSideLimit) {
    return InvalidArgument(
        fmt::format("an image of {} x {}, expected sides up to {}", height, width, kSideLimit));
  }
  return OkStatus();
}

Result<Windows> ResolveWindows(const AttrMap& attrs, int64_t input_h, int64_t input_w,
                               int64_t size_h, int64_t size_w) {
  LS_TRY(CheckImageSides(input_h, input_w));
  LS_TRY(CheckInts(attrs, "strides", 2, 1));
  const std::vector<int64_t>& strides = attrs.GetInts("strides");
  Windows windows;
  windows.h = {.input = input_h, .size = size_h, .stride = strides[0]};
  windows.w = {.input = input_w, .size = size_w, .stride = strides[1]};
  if (attrs.Find("dilations") != nullptr) {
    LS_TRY(CheckInts(attrs, "dilations", 2, 1));
    windows.h.dilation = attrs.GetInts("dilations")[0];
    windows.w.dilation = attrs.GetInts("dilations")[1];
  }
  for (const int64_t size : {size_h, size_w}) {
    if (size < 1 || size > kLimit) {
      return InvalidArgument(fmt::format("a window of size {}, expected 1 to {}", size, kLimit));
    }
  }
  const std::string& padding = attrs.GetString("padding");
  const std::vector<int64_t>& explicit_paddings = attrs.GetInts("explicit_paddings");
  if (padding == "EXPLICIT") {
    LS_TRY(CheckInts(attrs, "explicit_paddings", 4, 0));
    windows.h.pad_low = explicit_paddings[0];
    windows.h.pad_high = explicit_paddings[1];
    windows.w.pad_low = explicit_paddings[2];
    windows.w.pad_high = explicit_paddings[3];
  } else if (padding != "SAME" && padding != "VALID") {
    return InvalidArgument(fmt::format("padding is '{}', allowed: SAME, VALID, EXPLICIT", padding));
  } else if (!explicit_paddings.empty()) {
    return InvalidArgument(fmt::format("explicit_paddings is given, but padding is '{}'", padding));
  }
  LS_TRY(ResolveOutput(padding, "height", windows.h));
  LS_TRY(ResolveOutput(padding, "width", windows.w));
  return windows;
}

std::vector<AttrDef> WindowAttrs(const std::vector<AttrDef>& more) {
  std::vector<AttrDef> attrs = {{"strides", AttrType::kInts, std::vector<int64_t>{1, 1}},
                                {"padding", AttrType::kString, std::string("VALID")},
                                {"explicit_paddings", AttrType::kInts, std::vector<int64_t>{}},
                                {"data_format", AttrType::kString, std::string("NHWC")}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

}  // namespace lockstep::op::internal
